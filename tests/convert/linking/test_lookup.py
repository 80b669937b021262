"""Rows in order of time, and rows above others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.linking import lookup
from profkit.convert.linking.lookup import by_start, nearest_with


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3)))
def test_rows_that_start_at_once_are_in_order_of_the_other_keys(rows):
    start, second, third = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    found = by_start(start, second, third)
    assert found.tolist() == sorted(range(len(rows)), key=rows.__getitem__)


@given(st.lists(st.tuples(st.integers(-1, 30), st.booleans())), st.lists(st.integers(-1, 30)))
def test_the_nearest_row_above_is_the_same_one_step_at_a_time_or_for_all_at_once(tree, asked):
    parents = np.array([min(above, row - 1) for row, (above, _) in enumerate(tree)], dtype=np.int32)
    holds = np.array([flag for _, flag in tree], dtype=np.bool_)
    rows = np.array([row for row in asked if row < len(tree)], dtype=np.int64)

    def nearest(row):
        while row >= 0 and not holds[row]:
            row = parents[row]
        return row

    few = lookup._FEW_ROWS
    try:
        for lookup._FEW_ROWS in (-1, few):
            found = nearest_with(holds.__getitem__, rows, parents)
            assert found.tolist() == [nearest(row) for row in rows.tolist()]
    finally:
        lookup._FEW_ROWS = few
