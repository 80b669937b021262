"""Nesting on a thread."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.linking.tree import LEAF, POINT, ROUNDING_NS, SPAN, is_asynchronous, nested


def tree(*rows, asynchronous=()):
    """Build a tree from rows of start, end and kind, in ns."""
    start, end, kind = (np.array(column) for column in zip(*rows, strict=True))
    return nested(
        start=start,
        end=end,
        kind=kind.astype(np.int8),
        created=np.arange(len(rows)),
        asynchronous=np.isin(np.arange(len(rows)), asynchronous),
    )


def test_children_and_calls_take_from_their_parents_time():
    found = tree(
        (0, 100, SPAN),
        (10, 50, SPAN),
        (20, 30, LEAF),
        (22, 28, LEAF),  # a driver call inside a runtime call
        (60, 70, LEAF),
        (25, 25, POINT),
    )
    assert found.parent.tolist() == [-1, 0, 1, 1, 0, 1]
    assert found.self_ns.tolist()[:2] == [50, 30]
    assert found.order.tolist() == [0, 1, 2, 3, 5, 4]


def test_what_begins_where_another_ends_is_beside_it():
    assert tree((0, 10, SPAN), (10, 20, SPAN)).parent.tolist() == [-1, -1]


def test_equal_times_nest_by_age():
    assert tree((0, 10, SPAN), (0, 10, SPAN)).parent.tolist() == [-1, 0]


def test_rounding_is_cut_and_counted():
    found = tree((0, 10_000, SPAN), (4_000, 11_000, SPAN))
    assert found.end.tolist() == [10_000, 10_000]
    assert found.self_ns.tolist() == [4_000, 6_000]
    assert (found.cut, found.crossing.sum()) == (1, 0)


def test_a_row_that_outlives_its_parent_is_asynchronous():
    found = tree((0, 10_000, SPAN), (4_000, 90_000, SPAN), (5_000, 6_000, SPAN))
    assert found.parent.tolist() == [-1, 0, 0]
    assert found.end.tolist() == [10_000, 90_000, 6_000]
    assert found.self_ns.tolist() == [9_000, 0, 1_000]
    assert (found.cut, found.crossing.sum()) == (0, 1)


def test_host_collectives_enclose_nothing():
    found = tree((0, 100, SPAN), (10, 60, SPAN), asynchronous=[0])
    assert found.parent.tolist() == [-1, -1]
    assert found.self_ns.tolist() == [0, 50]
    assert [is_asynchronous(name) for name in ("gloo:all_reduce", "nccl:all_reduce")] == [
        True,
        False,
    ]


def test_no_rows_are_a_tree():
    nothing = np.array([], dtype=np.int64)
    found = nested(
        start=nothing,
        end=nothing,
        kind=nothing.astype(np.int8),
        created=nothing,
        asynchronous=nothing.astype(np.bool_),
    )
    assert found.parent.tolist() == []


def by_stack(rows, asynchronous):
    """Return parents and own times of rows of start, end and kind, one row at a time."""
    parents, own, stack = [-1] * len(rows), [end - start for start, end, _ in rows], []
    keys = [(start, -end, kind, row) for row, (start, end, kind) in enumerate(rows)]
    for start, minus_end, kind, row in sorted(keys):
        while stack and stack[-1][1] <= start:
            stack.pop()
        above = [row for row, _ in stack if rows[row][2] == SPAN]
        parents[row] = above[-1] if above else -1
        if row in asynchronous or (stack and -minus_end > stack[-1][1] + ROUNDING_NS):
            own[row] = 0
            continue
        end = min([-minus_end, *(until for _, until in stack[-1:])])
        own[row] += end + minus_end
        if stack:
            own[stack[-1][0]] -= end - start
        if kind != POINT:
            stack.append((row, end))
    return parents, own


@st.composite
def some_rows(draw):
    """Draw rows that mostly nest, in units of 1 us so that some ends are off by rounding."""
    kinds = st.sampled_from([SPAN, SPAN, LEAF, POINT])
    rows = []
    for _ in range(draw(st.integers(1, 25))):
        start, size = draw(st.integers(0, 40)) * 1000, draw(st.integers(0, 20)) * 1000
        kind = draw(kinds)
        rows.append((start, start + size * (kind != POINT), kind))
    return rows, draw(st.sets(st.integers(0, len(rows) - 1), max_size=3))


@given(some_rows())
def test_rows_nest_as_if_taken_one_by_one(drawn):
    rows, asynchronous = drawn
    found = tree(*rows, asynchronous=list(asynchronous))
    assert (found.parent.tolist(), found.self_ns.tolist()) == by_stack(rows, asynchronous)
