"""Nesting on threads."""

import numpy as np

from profkit.convert.kineto.tree import LEAF, POINT, SPAN, is_asynchronous, nested


def tree(*rows, asynchronous=()):
    """Build a tree from rows of thread, start, end and kind, in ns."""
    thread, start, end, kind = (np.array(column) for column in zip(*rows, strict=True))
    return nested(
        thread=thread,
        start=start,
        end=end,
        kind=kind.astype(np.int8),
        created=np.arange(len(rows)),
        asynchronous=np.isin(np.arange(len(rows)), asynchronous),
    )


def test_children_and_calls_take_from_their_parents_time():
    found = tree(
        (1, 0, 100, SPAN),
        (1, 10, 50, SPAN),
        (1, 20, 30, LEAF),
        (1, 22, 28, LEAF),  # a driver call inside a runtime call
        (1, 60, 70, LEAF),
        (1, 25, 25, POINT),
    )
    assert found.parent.tolist() == [-1, 0, 1, 1, 0, 1]
    assert found.self_ns.tolist()[:2] == [50, 30]
    assert found.order.tolist() == [0, 1, 2, 3, 5, 4]


def test_threads_do_not_nest_in_each_other():
    assert tree((1, 0, 100, SPAN), (2, 10, 20, SPAN)).parent.tolist() == [-1, -1]


def test_what_begins_where_another_ends_is_beside_it():
    assert tree((1, 0, 10, SPAN), (1, 10, 20, SPAN)).parent.tolist() == [-1, -1]


def test_equal_times_nest_by_age():
    assert tree((1, 0, 10, SPAN), (1, 0, 10, SPAN)).parent.tolist() == [-1, 0]


def test_rounding_is_cut_and_counted():
    found = tree((1, 0, 10_000, SPAN), (1, 4_000, 11_000, SPAN))
    assert found.end.tolist() == [10_000, 10_000]
    assert found.self_ns.tolist() == [4_000, 6_000]
    assert (found.cut, found.crossing) == (1, 0)


def test_a_row_that_outlives_its_parent_is_asynchronous():
    found = tree((1, 0, 10_000, SPAN), (1, 4_000, 90_000, SPAN), (1, 5_000, 6_000, SPAN))
    assert found.parent.tolist() == [-1, 0, 0]
    assert found.end.tolist() == [10_000, 90_000, 6_000]
    assert found.self_ns.tolist() == [9_000, 0, 1_000]
    assert (found.cut, found.crossing) == (0, 1)


def test_host_collectives_enclose_nothing():
    found = tree((1, 0, 100, SPAN), (1, 10, 60, SPAN), asynchronous=[0])
    assert found.parent.tolist() == [-1, -1]
    assert found.self_ns.tolist() == [0, 50]
    assert [is_asynchronous(name) for name in ("gloo:all_reduce", "nccl:all_reduce")] == [
        True,
        False,
    ]


def test_no_rows_are_a_tree():
    nothing = np.array([], dtype=np.int64)
    found = nested(
        thread=nothing,
        start=nothing,
        end=nothing,
        kind=nothing.astype(np.int8),
        created=nothing,
        asynchronous=nothing.astype(np.bool_),
    )
    assert found.parent.tolist() == []
