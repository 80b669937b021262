"""When Snakemake looks for jobs to start, and at what: once where nothing has changed since."""

from collections.abc import Iterable
from typing import Any

_USUAL = (100, 1)
"""Jobs, and seconds in which Snakemake starts no more of them unless it is given another rate."""


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
