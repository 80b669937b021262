"""When Snakemake looks for jobs to start: when one has ended, and not each second as well."""

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
