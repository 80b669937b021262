"""When Snakemake looks for jobs to start, and at what: once where nothing has changed since."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

_USUAL = (100, 1)
"""Jobs, and seconds in which Snakemake starts no more of them unless it is given another rate."""

_Needs = tuple[int, ...]

_Place = tuple[Any, int, Any]
"""What a job is worth, minus its number, and the job."""


def without_rate(scheduler: Any) -> None:
    """Let `scheduler`, which Snakemake is about to start, start jobs at any rate.

    A rate given to Snakemake is kept. To keep its usual one it looks again a second after each
    look, once more for each job that has ended: up to tens of times a second beside a capture. At
    its end it waits for the last of them.
    """
    rate = scheduler.workflow.scheduling_settings.max_jobs_per_timespan
    if rate and (rate.max_jobs, rate.timespan) == _USUAL:
        scheduler.job_rate_limiter = None


def ask_sizes_once(scheduler: Any) -> None:
    """Let `scheduler` ask for the size of an input once, and not whenever it chooses a job.

    It does so for the inputs of all jobs that are ready: of hundreds of runs tens of thousands,
    which takes longer than most jobs. Inputs of a job that is ready change no more.
    """
    sizes = scheduler._input_sizes  # noqa: SLF001

    async def update(jobs: Iterable[Any]) -> None:
        for path in {path for job in jobs for path in job.input if path not in sizes}:
            sizes[path] = await path.size() if await path.exists() else None

    scheduler.update_input_sizes = update


def look_at_few(scheduler: Any) -> None:
    """Let `scheduler` look at no more of the jobs that are ready than could start at once.

    Each time that a job ends it looks at all of them, and at all that are to be done at some time:
    of 500 runs at thousands for each of 15,000 jobs. It starts the same ones, unless it was asked
    to choose otherwise than by priority and size.
    """
    if type(scheduler._scheduler) is not type(scheduler._greedy_scheduler):  # noqa: SLF001
        return
    usual = type(scheduler)
    ready = _Ready(scheduler)

    def remaining(self: Any) -> Any:
        # By priority and size it chooses without these; at its end it asks whether there are any.
        return [] if self.workflow.dag.ready_jobs else usual.remaining_jobs.fget(self)

    few = {
        "open_jobs": property(lambda self: ready.first(self.workflow.dag.ready_jobs)),
        "remaining_jobs": property(remaining),
    }
    scheduler.__class__ = type(usual.__name__, (usual,), few)


@dataclass
class _Ready:
    """Jobs that are ready, in the order in which Snakemake starts those that need the same."""

    scheduler: Any
    places: dict[Any, tuple[_Needs, _Place]] = field(default_factory=dict)
    """What each job takes of each resource, and its place among those that take the same."""

    lines: dict[_Needs, list[_Place]] = field(default_factory=lambda: defaultdict(list))
    """Those that take the same; the last is started first."""

    def first(self, ready: AbstractSet[Any]) -> list[Any]:
        """Return those of the jobs `ready` that could start if no other did.

        Of those that need the same there is always one: without any Snakemake would be at its end.
        """
        for job in self.places.keys() - ready:
            needs, place = self.places.pop(job)
            del self.lines[needs][bisect_left(self.lines[needs], place)]
        self._add(sorted(ready - self.places.keys(), key=_number))
        found = (line[-self._most(needs) :] for needs, line in self.lines.items())
        return [job for places in found for *_, job in places]

    def _add(self, jobs: Sequence[Any]) -> None:
        scheduler = self.scheduler
        choice = scheduler._scheduler  # noqa: SLF001
        for job in jobs:
            # What it needs may depend on files that were not there before.
            job.reset_params_and_resources()
            scheduler.validate_job(job)
        scheduler.workflow.async_run(scheduler.update_input_sizes(jobs))
        for job in jobs:
            needs = tuple(choice.job_weight(job, scheduler.resources))
            worth = choice.job_reward(job, scheduler._input_sizes)  # noqa: SLF001
            self.places[job] = needs, (worth, -_number(job), job)
            insort(self.lines[needs], self.places[job][1])

    def _most(self, needs: tuple[int, ...]) -> int:
        """Return how many jobs with these `needs` find room beside those that run, at least one."""
        rooms: list[int] = [
            free // need
            for (name, free), need in zip(self.scheduler.resources.items(), needs, strict=True)
            # How many may start is looked at later.
            if need and name != "_job_count"
        ]
        return max(1, min(rooms))


def _number(job: Any) -> int:
    """Return the number of `job`, the same each time; of a group the lowest of its jobs."""
    return int(min(one.jobid for one in job) if job.is_group() else job.jobid)
