"""Snakemake's usual rate of jobs is left out, and one that was asked for is kept."""

from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
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
