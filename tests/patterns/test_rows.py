"""Operators that rows of a pattern's tables belong to."""

import numpy as np
import pytest

from profkit.patterns import _rows
from profkit.testing import frame


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
