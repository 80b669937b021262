"""Operators that rows of a pattern's tables belong to."""

import numpy as np
import pytest

from profkit.patterns import _rows
from profkit.testing import frame, span


@pytest.mark.parametrize(
    "numbers",
    [
        [(0, 0), (0, 1), (0, 2)],
        [(0, 4), (0, 5), (0, 6)],
        [(0, 1), (0, 3), (0, 9)],
        [(0, 2), (0, 0), (0, 1)],
        [(0, 0), (1, 0), (1, 1)],
        [(1, 0), (1, 1), (1, 2)],
    ],
    ids=["in order", "from four", "with gaps", "in no order", "of two repeats", "of the second"],
)
def test_rows_belong_to_the_operator_of_their_number_and_repeat(numbers):
    ops = frame("cpu_ops", numbers, "repeat op")
    wanted = [(repeat, op) for repeat in (0, 1) for op in range(-1, 11)]
    rows = frame("kernels", wanted, "repeat op")
    for at, number in enumerate(numbers):
        chosen = np.arange(len(numbers)) == at
        belonging = _rows.belonging(rows, ops, chosen)
        assert [wanted[row] for row in np.flatnonzero(belonging)] == [number]


def test_pairs_of_texts_are_looked_at_once():
    looked_at = []

    def fits(left, right):
        looked_at.append((left, right))
        return left < right

    ops = frame("cpu_ops", [("a", "b"), ("b", "a"), ("a", "b"), ("b", "c")], "name module")
    chosen = np.array([True, True, True, False])
    found = _rows.fitting_both(ops, chosen, ("name", "module"), fits)
    assert found.tolist() == [True, False, True, False]
    assert sorted(looked_at) == [("a", "b"), ("b", "a")]
    assert not _rows.fitting_both(ops, ~chosen & False, ("name", "module"), fits).any()


def test_the_step_around_the_last_range_of_a_recording_is_not_inside_it():
    rows = [
        span(0, 1_000, op=0, parent=-1, tid=1, kind="annotation", name="ProfilerStep#3"),
        span(100, 300, op=1, parent=0, tid=1, kind="operator", name="aten::mm"),
        # It was open when the recording ended, some time after the step.
        span(400, 2_000, op=2, parent=0, tid=1, kind="annotation", name="Optimizer.step#SGD.step"),
        span(500, 600, op=3, parent=2, tid=1, kind="operator", name="aten::add_"),
        # Cut across by a range of the user's, it is a child of that.
        span(350, 900, op=4, parent=0, tid=1, kind="annotation", name="mine"),
        span(700, 800, op=5, parent=4, tid=1, kind="operator", name="aten::mul_"),
    ]
    ops = frame("cpu_ops", rows)
    roots = _rows.having(ops, "^Optimizer")
    assert ops["name"][_rows.inside(ops, roots)].tolist() == [
        "Optimizer.step#SGD.step",
        "aten::add_",
        "aten::mul_",
    ]
