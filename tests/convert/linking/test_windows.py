"""What is linked window by window is what is linked at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.spill import Scratch, Spill
from profkit.convert.linking import windows
from profkit.convert.linking.callers import Linking
from profkit.convert.linking.nesting import nesting
from profkit.convert.linking.windows import carried
from profkit.convert.torch_profiler import trace
from profkit.tables.tree_paths import PathBuilder, depths, paths
from tests.convert.torch_profiler.test_parts import TRACES, tables

_BLOCK = 4
# A row outlives the one around it often, and by more and by less than is rounded away.
_ROWS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 40).map(lambda time: time * 700),
        st.integers(0, 12).map(lambda time: time * 700),
        st.integers(0, 2),
    ),
    max_size=40,
)


def stored(rows, scratch):
    """Return rows of thread, start, duration and name as columns in blocks."""
    thread, start, duration, name = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    columns = {
        "pid": np.zeros(len(start), dtype=np.int64),
        "tid": thread,
        "start": start,
        "end": start + duration,
        "name": name,
        "external": np.arange(len(start)),
    }
    spill = Spill(scratch)
    limits = range(0, max(len(rows), 1), _BLOCK)
    return Columns(
        spill,
        [
            spill.keep({name: column[at : at + _BLOCK] for name, column in columns.items()})
            for at in limits
        ],
    )


def both_ways(link, monkeypatch):
    found = []
    for rows in (1 << 30, 1):
        monkeypatch.setattr(windows, "WINDOW_ROWS", rows)
        found.append(link())
    return found


@pytest.fixture(scope="module")
def scratch():
    return Scratch()


@given(hosts=st.tuples(_ROWS, _ROWS, _ROWS), is_sorted=st.booleans())
def test_rows_that_cross_nest_as_they_do_at_once(hosts, is_sorted, scratch, monkeypatch):
    asked = [sorted(rows, key=lambda row: row[1]) if is_sorted else rows for rows in hosts]
    columns = [stored(rows, scratch) for rows in asked]
    asynchronous, marks = np.array([False, False, True]), np.array([False, True, False])

    def link():
        found = nesting(*columns, asynchronous=asynchronous, marks=marks)
        arrays = (found.op_rows, found.parent, found.end, found.self_ns)
        return [array().tolist() for array in arrays], found.cut, found.crossing

    whole, parts = both_ways(link, monkeypatch)
    assert parts == whole


@given(python=_ROWS, ops=_ROWS, is_sorted=st.booleans())
def test_calls_have_the_callers_and_paths_that_they_have_at_once(
    python, ops, is_sorted, scratch, monkeypatch
):
    asked = [sorted(rows, key=lambda row: row[1]) if is_sorted else rows for rows in (python, ops)]
    recorded, others = (stored(rows, scratch) for rows in asked)

    def link():
        found = Linking(
            python=recorded,
            others=[others],
            frames=np.arange(3),
            is_module=np.array([False, True, False]),
            paths=PathBuilder(3),
        ).callers()
        path = found.calls["path"]
        nodes = [paths.node[path].tolist() for paths in (found.stacks, found.modules)]
        around = np.append(found.stacks.node, -1)[found.sites[0]()].tolist()
        return nodes, around, found.calls["caller"].tolist(), found.calls["start"].tolist()

    whole, parts = both_ways(link, monkeypatch)
    assert parts == whole


@given(st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 2)), max_size=30), st.integers(0, 7))
def test_paths_that_grow_are_the_paths_of_all(rows, counts):
    caller = np.array([min(above, at - 1) for at, (above, _) in enumerate(rows)], dtype=np.int64)
    name = np.array([name for _, name in rows], dtype=np.int64)
    counted = (counts >> name) % 2 == 1
    growing = PathBuilder(3)
    rows = growing.add(caller, depths(caller), name, counted, np.empty(0, dtype=np.int64))
    every = np.ones(len(name), dtype=np.bool_)
    for found, expected in zip(
        growing.whole(), (paths(caller, name, every), paths(caller, name, counted)), strict=True
    ):
        assert found.node[rows].tolist() == expected.node.tolist()
        assert found.above.tolist() == expected.above.tolist()
        assert found.name.tolist() == expected.name.tolist()


def test_nothing_is_carried_where_a_row_outlives_the_one_around_it():
    start, end = np.array([0, 10, 20]), np.array([100, 90, 30])
    opens = np.ones(3, dtype=np.bool_)
    assert carried(start, end, opens, 50).tolist() == [0, 1]
    assert carried(start, np.array([40, 90, 30]), opens, 50) is None
    assert carried(start, np.array([80, 90, 30]), opens, 50) is None


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_in_windows_is_the_trace(real_data, monkeypatch, name):
    def link():
        # Windows end where blocks begin.
        return tables(trace.read(real_data / "kineto" / name, block_bytes=1 << 15))

    whole, parts = both_ways(link, monkeypatch)
    assert parts == whole
