"""Snakemake starts the jobs that it would start, at any rate, with fewer looks at the others."""

import asyncio
import logging
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from snakemake.cli import get_argument_parser
from snakemake.exceptions import WorkflowError
from snakemake.scheduling import greedy
from snakemake.scheduling.job_scheduler import JobRateLimiter, JobScheduler
from snakemake.settings.types import SchedulingSettings

from profkit.dag import snakemake_pace


@pytest.mark.parametrize(
    ("words", "is_kept"), [([], False), (["--max-jobs-per-timespan", "50/1m"], True)]
)
def test_only_a_rate_that_was_asked_for_is_kept(words, is_kept):
    rate = get_argument_parser().parse_args(words).max_jobs_per_timespan
    workflow = SimpleNamespace(scheduling_settings=SchedulingSettings(max_jobs_per_timespan=rate))
    scheduler = SimpleNamespace(workflow=workflow, job_rate_limiter=JobRateLimiter(rate))
    snakemake_pace.without_rate(scheduler)
    assert (scheduler.job_rate_limiter is not None) == is_kept


def test_the_size_of_an_input_is_asked_for_once():
    asked = []

    class Path(str):
        __slots__ = ()

        async def exists(self):
            return self != "gone"

        async def size(self):
            asked.append(str(self))
            return len(self)

    def sizes(ask):
        jobs = [SimpleNamespace(input=[Path("a"), Path("bcd")]), SimpleNamespace(input=[Path("a")])]
        asyncio.run(ask(jobs))
        jobs.append(SimpleNamespace(input=[Path("gone"), Path("ef")]))
        asyncio.run(ask(jobs))

    usual = SimpleNamespace(_input_sizes={})
    sizes(lambda jobs: JobScheduler.update_input_sizes(usual, jobs))
    assert sorted(asked) == ["a", "a", "bcd", "bcd", "ef"]
    asked.clear()
    ours = SimpleNamespace(_input_sizes={})
    snakemake_pace.ask_sizes_once(ours)
    sizes(ours.update_input_sizes)
    assert sorted(asked) == ["a", "bcd", "ef"]
    assert ours._input_sizes == usual._input_sizes == {"a": 1, "bcd": 3, "ef": 2, "gone": None}


@dataclass(eq=False)
class Job:
    """A job as the scheduler knows it."""

    jobid: int
    priority: int
    scheduler_resources: dict[str, int]
    size: int

    @property
    def input(self):
        return [File(self)]

    def is_group(self):
        return False

    def reset_params_and_resources(self):
        pass


@dataclass(frozen=True)
class File:
    """The input of a job."""

    job: Job

    def is_flagged(self, flag):
        return flag == "temp" and self.job.size % 3 == 0

    async def exists(self):
        return self.job.size > 0

    async def size(self):
        return self.job.size


def scheduler(resources, *, kind=greedy.Scheduler):
    """Return Snakemake's scheduler with `resources`, and its set of ready jobs."""
    ready = set()
    dag = SimpleNamespace(ready_jobs=ready, needrun_jobs=lambda: iter(()))
    made = JobScheduler.__new__(JobScheduler)
    made.workflow = SimpleNamespace(dag=dag, async_run=asyncio.run)
    made.resources = dict(resources)
    made.global_resources = dict(resources)
    made.job_rate_limiter = None
    made._lock = threading.Lock()
    made._validated_jobs, made._input_sizes = set(), {}
    log = logging.getLogger(__name__)
    made._greedy_scheduler = greedy.Scheduler(dag, greedy.SchedulerSettings(), log)
    made._scheduler = kind(dag, greedy.SchedulerSettings(), log)
    made._job_selector = made._scheduler.select_jobs
    return made, ready


def jobs_of(seed, count):
    """Return `count` jobs of several kinds, each of a size of its own; sizes make their order."""
    dice = np.random.default_rng(seed)
    sizes = dice.permutation(10 * count)[:count]
    return [
        Job(
            jobid=number,
            priority=int(dice.choice((0, 0, 1, 1000))),
            scheduler_resources={
                "_cores": int(dice.choice((1, 1, 2, 4))),
                "gpus": int(dice.choice((0, 1))),
            },
            size=int(size),
        )
        for number, size in enumerate(sizes)
    ]


def started(made, ready, seed, count=150):
    """Work `count` jobs off, one in ten a second time; return the numbers that began together."""
    dice = np.random.default_rng(seed)
    later, running, history, repeated = jobs_of(seed, count), [], [], set()
    while later or ready or running:
        ready.update(later.pop() for _ in range(min(len(later), dice.choice((0, 1, 40)))))
        begun = sorted(made.job_selector(set(made.open_jobs)), key=lambda job: job.jobid)
        ready.difference_update(begun)
        running += begun
        history.append([job.jobid for job in begun])
        for _ in range(min(len(running), dice.choice((1, 1, 2)))):
            ended = running.pop(dice.integers(len(running)))
            made._free_resources(ended)
            if ended.jobid % 10 == 0 and ended not in repeated:
                repeated.add(ended)
                ready.add(ended)
    return history


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cores", [4, 7, sys.maxsize])
def test_the_same_jobs_are_started_when_few_are_looked_at(seed, cores):
    resources = {"_cores": cores, "gpus": 2, "_job_count": sys.maxsize}
    usual = started(*scheduler(resources), seed)
    made, ready = scheduler(resources)
    snakemake_pace.look_at_few(made)
    assert started(made, ready, seed) == usual
    assert sum(len(begun) for begun in usual) == 150 + 15


def test_few_of_many_ready_jobs_are_looked_at_and_some_of_each_kind():
    made, ready = scheduler({"_cores": 4, "gpus": 2, "_job_count": sys.maxsize})
    snakemake_pace.look_at_few(made)
    ready.update(jobs_of(0, 3000))
    needs = {tuple(job.scheduler_resources.values()) for job in ready}
    looked_at = made.open_jobs
    assert {tuple(job.scheduler_resources.values()) for job in looked_at} == needs
    assert len(looked_at) == 4 + 2 + 1 + 2 + 2 + 1
    # Those that find no room at present hide none that does, and go on being looked at.
    made.resources["_cores"] = 1
    assert {tuple(job.scheduler_resources.values()) for job in made.open_jobs} == needs
    assert all(job.scheduler_resources["_cores"] == 1 for job in made.job_selector(made.open_jobs))


def test_jobs_alike_are_started_in_the_order_of_their_numbers():
    made, ready = scheduler({"_cores": 2, "_job_count": sys.maxsize})
    snakemake_pace.look_at_few(made)
    ready.update(Job(number, 0, {"_cores": 1}, 5) for number in range(100))
    assert sorted(job.jobid for job in made.open_jobs) == [0, 1]


def test_all_are_looked_at_by_a_scheduler_that_was_asked_for():
    class Other(greedy.Scheduler):
        pass

    made, ready = scheduler({"_cores": 1, "_job_count": sys.maxsize}, kind=Other)
    snakemake_pace.look_at_few(made)
    ready.update(jobs_of(0, 50))
    assert set(made.open_jobs) == ready


def test_a_job_that_needs_more_than_there_is_is_named():
    made, ready = scheduler({"_cores": 2, "gpus": 1, "_job_count": sys.maxsize})
    snakemake_pace.look_at_few(made)
    ready.update([Job(0, 1, {"_cores": 1}, 5), Job(1, 0, {"_cores": 1, "gpus": 2}, 5)])
    with pytest.raises(WorkflowError, match="Job needs gpus=2 but only gpus=1"):
        made.job_selector(made.open_jobs)


WORKFLOW = """
from profkit.dag import snakemake_pace
onstart:
    snakemake_pace.without_rate(workflow.scheduler)
    snakemake_pace.ask_sizes_once(workflow.scheduler)
    snakemake_pace.look_at_few(workflow.scheduler)
rule all:
    input: expand("{n}.made", n=range(9)), "last.txt"
for number in range(9):
    rule:
        name: f"r{number}"
        output: f"{number}.made"
        priority: number * 5 % 9
        params: number=number
        shell: "echo {params.number} >> order; test {params.number} != 5 && touch {output}"
rule last:
    input: expand("{n}.made", n=[7, 8])
    output: "last.txt"
    priority: 9
    shell: "echo last >> order; touch {output}"
rule both:
    input: "both.txt"
rule write:
    output: pipe("both")
    shell: "echo written > {output}"
rule read:
    input: "both"
    output: "both.txt"
    shell: "cat {input} > {output}"
"""


def snakemake(folder, *words):
    """Run the workflow with `words`."""
    (folder / "Snakefile").write_text(WORKFLOW)
    command = [sys.executable, "-m", "snakemake", "--scheduler", "greedy", *words]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)


def test_a_workflow_goes_on_by_priority_beside_a_job_that_fails_again(tmp_path):
    ran = snakemake(tmp_path, "--cores", "1", "--keep-going", "--retries", "1")
    assert ran.returncode == 1
    assert (tmp_path / "order").read_text().split() == [*"755318", "last", *"6420"]
    assert (tmp_path / "last.txt").exists()
    assert not (tmp_path / "5.made").exists()


def test_jobs_with_a_pipe_between_them_are_started_together(tmp_path):
    assert snakemake(tmp_path, "--cores", "2", "both").returncode == 0
    assert (tmp_path / "both.txt").read_text() == "written\n"
