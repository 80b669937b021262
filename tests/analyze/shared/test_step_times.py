"""The step time: what is taken of the steps, and which runs can be compared by it."""

import numpy as np
import pytest

from profkit.analyze import steps
from profkit.analyze.shared.step_times import typical, with_step_times
from profkit.core.step_time import timed_alike
from profkit.tables import schema
from profkit.testing import run

BURSTS = [10, 310] * 8
EVEN = [158, 162] * 8


@pytest.mark.parametrize(
    ("times", "statistic"),
    [
        (BURSTS, np.mean),
        ([310, 10, 310] * 6, np.mean),  # fewer are fast
        ([10, 10, 10, 10, 10, 10, 10, 400] * 2, np.mean),  # eight workers
        (EVEN, np.median),
        ([100] * 19 + [2000], np.median),  # one of many
        ([100] * 15 + [130] * 5, np.median),  # hardly another time
        ([10, 310] * 4, np.median),  # too few to say
    ],
)
def test_a_step_costs_the_mean_where_slow_steps_are_as_usual_as_fast_ones(times, statistic):
    assert typical(np.array(times, dtype=float)) is statistic


def steps_of(times_ms):
    ends = np.cumsum([0, *times_ms]) * 1_000_000
    return [
        {"repeat": 0, "step": number, "start_ns": ends[number], "end_ns": ends[number + 1]}
        for number in range(len(times_ms))
    ]


def measured(times_ms, tool="baseline"):
    return run(steps.analyze, steps={tool: steps_of(times_ms)}, skip_first=0)


def step_ms(result):
    return result.metrics["step_time_ns"].value / 1e6


@pytest.mark.parametrize(
    ("times_ms", "counted"),
    [
        ([150, 140, 150, 145] + [10] * 12, 12),
        ([150] * 4 + [10, 11, 10, 150] * 4, 20),  # slow ones later, too
        ([150] * 4 + [10] * 4, 8),  # few are steady
        ([13] * 4 + [10] * 12, 16),  # hardly slower
    ],
)
def test_slow_first_steps_are_left_out_where_the_others_are_even(times_ms, counted):
    rows = schema.frame("steps", steps_of(times_ms))
    assert len(with_step_times(rows, 0)) == counted


def test_runs_are_compared_by_their_means_where_steps_of_one_are_uneven():
    runs = {"none": measured(EVEN), "two": measured(BURSTS), "more": measured([158] * 15 + [318])}
    assert [step_ms(found) for found in runs.values()] == [160, 160, 158]
    kept, apart = timed_alike(runs)
    assert [step_ms(found) for found in kept.values()] == [160, 160, 168]
    assert {found.metrics["step_time_ns"].title for found in kept.values()} == {
        "Unprofiled step time, mean"
    }
    assert not apart
    assert kept["two"].metrics["step_time_ns"].by_repeat == {0: 160e6}


def test_even_runs_are_compared_by_their_medians_and_profiled_ones_not_at_all():
    runs = {"even": measured(EVEN), "slow": measured([100] * 16 + [900]),
            "profiled": measured(EVEN, "torch_profiler")}  # fmt: skip
    kept, (apart,) = timed_alike(runs)
    assert kept == {"even": runs["even"], "slow": runs["slow"]}
    assert apart.what == "what profiled is against others"
