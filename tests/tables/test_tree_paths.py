"""Distinct paths through a tree."""

import numpy as np
import pytest

from profkit.tables import tree_paths
from profkit.tables.tree_paths import depths, joined, ordered, paths


def test_equal_paths_are_one_node_and_rows_that_do_not_count_are_where_their_caller_is():
    # root(a) > b, root > b again, and a function inside the first b
    caller = np.array([-1, 0, 1, 0])
    name = np.array([0, 1, 2, 1])
    found = paths(caller, name, np.array([True, True, False, True]))
    assert found.node.tolist() == [0, 1, 1, 1]
    assert found.texts(np.array([-1, 0, 1]), ["a", "b", "f"]) == ["", "a", "a;b"]


def test_paths_are_the_same_however_many_rows_are_worked_on_at_once(monkeypatch):
    caller = np.array([-1, 0, 1, 0, 3, 3, -1, 6, 7, 6])
    name = np.array([0, 1, 2, 1, 2, 0, 0, 1, 2, 2], dtype=np.int16)
    counted = name != 1
    whole = paths(caller, name, counted)
    monkeypatch.setattr(tree_paths, "_ROWS_AT_ONCE", 2)
    parts = paths(caller, name, counted)
    assert parts.texts(parts.node, ["a", "b", "c"]) == [
        "a", "a", "a;c", "a", "a;c", "a;a", "a", "a", "a;c", "a;c",
    ]  # fmt: skip
    assert parts.node.tolist() == whole.node.tolist()
    assert parts.above.tolist() == whole.above.tolist()


def test_a_tree_without_rows_has_one_path():
    nothing = np.array([], dtype=np.int64)
    found = paths(nothing, nothing, nothing.astype(np.bool_))
    assert found.texts(np.array([-1]), []) == [""]


@pytest.mark.parametrize("deepest", [2, 32_767, 32_768, 70_000])
def test_rows_are_in_order_of_depth_however_deep_and_otherwise_in_their_own(deepest):
    depths = np.array([deepest, 1, deepest, 0, 1], dtype=np.int64)
    assert ordered(depths).tolist() == [3, 1, 4, 0, 2]


def test_rows_that_call_one_another_in_a_circle_end_and_leave_others_as_they_are():
    caller = np.array([-1, 0, 1, 4, 3, 5], dtype=np.int64)
    assert depths(caller)[:3].tolist() == [0, 1, 2]
    found = paths(caller, np.zeros(6, dtype=np.int64), np.ones(6, dtype=np.bool_))
    assert found.node[:3].tolist() == [0, 1, 2]


def test_what_separates_names_is_a_comma_within_one():
    assert joined(["a", "b;c", ""]) == "a;b,c;"
