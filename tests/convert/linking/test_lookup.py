"""Rows in order of time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.linking.lookup import by_start


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3)))
def test_rows_that_start_at_once_are_in_order_of_the_other_keys(rows):
    start, second, third = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    found = by_start(start, second, third)
    assert found.tolist() == sorted(range(len(rows)), key=rows.__getitem__)
