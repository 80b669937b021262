"""The step time that is left if a cause took less, on a few parts of one or two ranks."""

import numpy as np
import pytest

from profkit.analyze.shared.what_if import Step
from profkit.core.result import Result, Table

KEYS = ("rank", "repeat", "cause", "operator", "kernel")
COLUMNS = (*KEYS, "ms_per_step", "calls_per_step", "first_use_ms_per_step")
RANKS = ("rank", "launching_least_ns", "launching_most_ns", "decisive")
WAITING = "exposed_communication.waiting"


def step(*parts, ranks=((0, 0.0, 0.0, "true"),), by_step=None, calls=0, first=0.0):
    more = {"by_step": Table(title="", columns=by_step[0], rows=by_step[1])} if by_step else {}
    rows = tuple(
        (rank, 0, cause, operator, "", ms, calls, first) for rank, cause, operator, ms in parts
    )
    return Step(
        Result(
            tables={
                "parts": Table(title="", columns=COLUMNS, rows=rows),
                "ranks": Table(title="", columns=RANKS, rows=ranks),
                **more,
            }
        )
    )


def times(prediction):
    found = (prediction.low_ms, prediction.predicted_ms, prediction.high_ms)
    return tuple(round(time, 6) for time in found)


def test_a_cause_of_one_rank_gains_its_exposed_time():
    one = step(
        (0, "cpu_operators", "aten::mm", 6.0),
        (0, "cpu_operators", "aten::add", 2.0),
        (0, "loading_data", "", 4.0),
    )
    assert times(one.without({"loading_data": 1.0})) == (8.0, 8.0, 8.0)
    assert times(one.without({"cpu_operators.aten::mm": 0.5})) == (9.0, 9.0, 9.0)
    # A part of a cause that is gone as well is not gone twice.
    both = {"cpu_operators": 1.0, "cpu_operators.aten::mm": 1.0}
    assert times(one.without(both)) == (4.0, 4.0, 4.0)
    assert next(iter(one.times.items())) == ("cpu_operators", 8.0)


def test_a_profiler_that_slows_steps_leaves_less_to_gain():
    one = step((0, "cpu_operators", "", 6.0), (0, "python", "", 4.0))
    assert times(one.without({"python": 1.0}, unprofiled_ms=7.0)) == (3.0, 4.2, 4.2)


def test_what_a_traced_step_takes_longer_is_in_a_cause_that_is_long_enough_to_hold_it():
    one = step((0, "cpu_operators", "", 6.0), (0, "python", "", 4.0))
    assert times(one.without({"python": 1.0}, unprofiled_ms=5.0)) == (1.0, 1.0, 3.0)
    assert times(one.without({"cpu_operators": 1.0}, unprofiled_ms=5.0))[1] == 4.0
    # If none is, each of them has its share.
    assert times(one.without({"cpu_operators": 1.0}, unprofiled_ms=3.0))[1] == 1.2


def test_a_sleep_is_not_longer_with_a_profiler_that_slows_short_operators():
    many = [(0, "cpu_operators", f"aten::{number}", 1.0) for number in range(9)]
    one = step(*many, (0, "loading_data", "", 11.0), calls=50)
    # Of 20 ms, 2 are what it takes to record 500 calls.
    found = one.without({"loading_data": 1.0}, unprofiled_ms=18.0)
    assert found.predicted_ms == pytest.approx(7.2)
    # All of the 2 ms may have been in its 50 calls, or none of them.
    assert times(found) == (7.0, pytest.approx(7.2), 9.0)


def test_what_an_operator_takes_as_the_first_to_use_memory_is_not_gained():
    one = step((0, "cpu_operators", "aten::copy_", 3.0), (0, "python", "", 7.0), first=2.0)
    assert times(one.without({"cpu_operators": 1.0})) == (7.0, 9.0, 9.0)
    assert times(one.without({"cpu_operators": 0.5})) == (8.5, 9.5, 9.5)


def test_repeats_that_vary_make_the_bounds_wider_on_both_sides():
    one = step((0, "cpu_operators", "", 6.0), (0, "python", "", 4.0))
    repeats = [10.0, 11.0, 9.0, 10.0, 11.0, 9.0]
    found = one.without({"python": 1.0}, 10.0, repeats)
    # Student's t for 5 degrees of freedom, and the difference of two means.
    half = 2.570582 * np.std(repeats, ddof=1) * (2 / 6) ** 0.5
    assert times(found) == pytest.approx((6 - half, 6.0, 6 + half), abs=1e-4)
    # What gains nothing may seem to take longer.
    assert one.without({"python": 0.0}, 10.0, repeats).high_ms == pytest.approx(10 + half, abs=1e-4)


def test_steps_that_vary_make_the_bounds_wider():
    columns = ("rank", "repeat", "step", "step_time_ns")
    steps = tuple((0, 0, number, 1e6 * (10 + number % 2)) for number in range(8))
    one = step((0, "cpu_operators", "", 6.0), (0, "python", "", 4.0), by_step=(columns, steps))
    found = one.without({"python": 1.0})
    assert found.low_ms < found.predicted_ms - 0.3
    assert found.high_ms > found.predicted_ms + 0.3


def test_a_cause_in_few_steps_is_no_part_of_the_median_step():
    columns = ("rank", "repeat", "step", "step_time_ns", "cpu_operators_ns", "python_ns")
    usual = [(0, 0, number, 10e6, 10e6, 0.0) for number in range(3)]
    by_step = (columns, (*usual, (0, 0, 3, 50e6, 10e6, 40e6)))
    one = step((0, "cpu_operators", "", 10.0), (0, "python", "", 10.0), by_step=by_step)
    found = one.without({"python": 1.0}, unprofiled_ms=10.0)
    assert found.predicted_ms == pytest.approx(10.0)
    assert found.gained_share == pytest.approx(0.5)
    assert found.low_ms <= 5.0
    assert found.high_ms == pytest.approx(10.0)
    # What is in every step is most of the median one.
    found = one.without({"cpu_operators": 0.5}, unprofiled_ms=10.0)
    assert found.predicted_ms == pytest.approx(5.0)
    assert found.gained_share == pytest.approx(0.25)
    # The mean has its part of both.
    assert one.without({"python": 1.0}).predicted_ms == pytest.approx(10.0)


def test_bounds_hold_wherever_in_the_steps_a_part_of_a_cause_is():
    columns = ("rank", "repeat", "step", "step_time_ns", "python_ns")
    usual = [(0, 0, number, 1e8 + number, 1e8 + number) for number in range(60)]
    long = [(0, 0, number, 5e8, 5e8) for number in range(60, 80)]
    one = step(
        (0, "python", "line(1): main", 100.0),
        (0, "python", "line(9): save", 100.0),
        by_step=(columns, (*usual, *long)),
    )
    save, main = (
        one.without({f"python.line({name}": 1.0}, unprofiled_ms=100.0)
        for name in ("9): save", "1): main")
    )
    assert save.high_ms == pytest.approx(100.0, rel=0.01)
    assert main.low_ms == pytest.approx(0.0, abs=1.0)


RANKS_OF_TWO = ((0, 0.0, 0.0, "true"), (1, 0.0, 0.0, "false"))


@pytest.mark.parametrize(
    ("less", "expected"),
    [
        ({"cpu_operators": 0.1}, (11.2, 11.2, 11.2)),  # rank 1 has most of it
        ({"loading_data": 1.0}, (10.0, 12.0, 12.0)),  # rank 0 would only wait longer
        ({"python": 1.0}, (8.0, 8.0, 8.0)),  # then rank 0 has as much to do
        ({WAITING: 0.5}, (10.0, 10.0, 10.0)),
    ],
)
def test_a_rank_that_waits_for_others_gains_nothing_by_itself(less, expected):
    two = step(
        (0, "cpu_operators", "", 6.0),
        (0, "loading_data", "", 2.0),
        (0, WAITING, "", 4.0),
        (1, "cpu_operators", "", 8.0),
        (1, "python", "", 4.0),
        ranks=RANKS_OF_TWO,
    )
    assert times(two.without(less)) == expected
    # What rank 0 waits for is among the causes as well.
    assert two.times == {"cpu_operators": 8.0, WAITING.partition(".")[0]: 4.0} | {
        WAITING: 4.0,
        "python": 4.0,
        "loading_data": 2.0,
    }


def test_less_work_for_a_gpu_gains_until_the_cpu_is_the_limit():
    one = step(
        (0, "gpu_computing", "aten::mm", 8.0),
        (0, "gpu_idle.python", "", 2.0),
        ranks=((0, 4e6, 7e6, "true"),),
    )
    assert times(one.without({"gpu_computing": 1.0})) == (2.0, 4.0, 7.0)
    assert times(one.without({"gpu_idle.python": 1.0})) == (8.0, 8.0, 8.0)
    both = {"gpu_computing": 1.0, "gpu_idle.python": 1.0}
    assert times(one.without(both)) == (0.0, 2.0, 5.0)
