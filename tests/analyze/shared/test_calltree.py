import numpy as np
import pandas as pd

from profkit.analyze.shared import calltree
from profkit.tables import schema


def ops(*rows):
    return schema.frame(
        "cpu_ops",
        [
            {"rank": rank, "repeat": repeat, "op": op, "parent": parent}
            for rank, repeat, op, parent in rows
        ],
    )


def test_an_op_is_found_within_its_own_rank_and_repeat():
    table = ops((0, 0, 0, -1), (0, 0, 1, 0), (1, 0, 0, -1), (1, 2, 0, -1), (1, 2, 1, 0))
    assert calltree.rows_of(table, table, "parent").tolist() == [-1, 0, -1, -1, 3]


def test_an_op_that_is_not_there_has_no_row():
    table = ops((0, 0, 0, -1))
    others = ops((0, 0, 5, 5), (0, 9, 0, 0), (3, 0, 0, 0), (0, 0, 0, -1))
    assert calltree.rows_of(table, others).tolist() == [-1, -1, -1, 0]
    assert calltree.rows_of(ops(), others).tolist() == [-1, -1, -1, -1]


def test_a_number_is_found_whether_or_not_all_are_there_in_order():
    wanted = np.array([5, 7, -1, 6, 9])
    for known, found in (
        ([5, 6, 7], [0, 2, -1, 1, -1]),
        ([5, 7, 9], [0, 1, -1, -1, 2]),
        ([9, 5, 6], [1, -1, -1, 2, 0]),
        ([], [-1, -1, -1, -1, -1]),
    ):
        assert calltree.positions(np.array(known, dtype=np.int64), wanted).tolist() == found


def test_numbers_of_damage_are_found_too():
    known = np.array([-(2**63), -1, 3, 2**63 - 1])
    assert calltree.positions(known, np.array([2**63 - 1, 3, 4, -(2**63)])).tolist() == [
        3,
        2,
        -1,
        0,
    ]


def test_climbing_stops_at_the_first_row_that_is_not_skipped():
    parent = np.array([-1, 0, 1, 2])
    skipped = np.array([True, False, True, True])
    assert calltree.nearest(np.array([3, 2, 1, 0, -1]), parent, skipped).tolist() == [
        1, 1, 1, -1, -1,
    ]  # fmt: skip


def test_the_call_above_is_found_in_an_earlier_portion():
    # rank, call, caller, whether it counts, number of the nearest above that does
    rows = [(0, 0, -1, False, -1), (0, 1, 0, True, -1), (0, 2, 1, False, 1), (0, 3, 2, True, 1)]
    rows += [(0, 4, 3, False, 3), (0, 5, 2, False, 1), (0, 6, 0, True, -1)]
    rows += [(1, 0, -1, True, -1), (1, 1, 0, False, 0), (1, 2, 1, True, 0)]
    for size in (1, 2, 3, 10):
        above = calltree.NearestAbove()
        found = []
        for at in range(0, len(rows), size):
            rank, call, caller, counted, _ = zip(*rows[at : at + size], strict=True)
            part = pd.DataFrame({"rank": rank, "repeat": 0, "call": call, "caller": caller})
            found += above.of(part, np.array(counted)).tolist()
        assert found == [expected for *_, expected in rows]


def test_a_call_that_calls_itself_or_its_caller_has_none_above():
    calls = pd.DataFrame({"rank": 0, "repeat": 0, "call": [0, 1, 2], "caller": [0, 2, 1]})
    assert calltree.NearestAbove().of(calls, np.zeros(3, dtype=bool)).tolist() == [-1, -1, -1]


def test_sums_reach_every_row_above():
    parent = np.array([-1, 0, 1, 0])
    rows, values = np.array([2, 3, 2, -1]), np.array([5, 7, 1, 100])
    assert calltree.sums(rows, values, 4).tolist() == [0, 0, 6, 7]
    assert calltree.subtree_sums(rows, values, parent).tolist() == [13, 6, 6, 7]
