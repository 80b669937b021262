"""Snakemake's usual rate of jobs is left out, and one that was asked for is kept."""

import asyncio
from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
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
