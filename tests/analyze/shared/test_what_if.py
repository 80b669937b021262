"""The step time that is left if a cause took less, on a few parts of one or two ranks."""

import pytest

from profkit.analyze.shared.what_if import Step
from profkit.core.result import Result, Table

COLUMNS = ("rank", "repeat", "cause", "operator", "kernel", "ms_per_step")
RANKS = ("rank", "launching_least_ns", "launching_most_ns", "decisive")
WAITING = "exposed_communication.waiting"


def step(*parts, ranks=((0, 0.0, 0.0, "true"),), by_step=None):
    more = {"by_step": Table(title="", columns=by_step[0], rows=by_step[1])} if by_step else {}
    rows = tuple((rank, 0, cause, operator, "", ms) for rank, cause, operator, ms in parts)
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
    assert times(one.without({"python": 1.0}, unprofiled_ms=5.0)) == (1.0, 3.0, 3.0)


def test_steps_that_vary_make_the_bounds_wider():
    columns = ("rank", "repeat", "step", "step_time_ns")
    steps = tuple((0, 0, number, 1e6 * (10 + number % 2)) for number in range(8))
    one = step((0, "cpu_operators", "", 6.0), (0, "python", "", 4.0), by_step=(columns, steps))
    found = one.without({"python": 1.0})
    assert found.low_ms < found.predicted_ms - 0.3
    assert found.high_ms > found.predicted_ms + 0.3


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
