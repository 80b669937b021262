"""Columns that are kept in files."""

import errno
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.columns import on_disk
from profkit.convert.columns import spill as spilling
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.spill import Scratch, Spill

COLUMNS = {
    "numbers": np.arange(3000),
    "flags": np.array([True, False, True]),
    "small": np.arange(7, dtype=np.int8),
    "fractions": np.array([0.5, np.nan]),
    "none": np.empty(0, dtype=np.int64),
}


@pytest.fixture(scope="module")
def scratch():
    return Scratch()


@pytest.fixture(params=[0, 100, 1 << 20], ids=["on disk", "in part", "in memory"])
def spill(request, scratch, monkeypatch):
    """Return a place for columns, in which something is already that ends anywhere."""
    monkeypatch.setattr(spilling, "_HELD_BYTES", request.param)
    spill = Spill(scratch)
    spill.keep({"before": np.arange(3, dtype=np.int8)})
    return spill


@pytest.fixture
def table(spill):
    """Return rows of a number and a letter in blocks of 3, none, 4 and 1."""
    blocks = [
        spill.keep({"start": np.arange(*rows), "letter": np.full(rows[1] - rows[0], 65 + rows[0])})
        for rows in ((0, 3), (3, 3), (3, 7), (7, 8))
    ]
    return Columns(spill, blocks)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_held_column_is_the_column_here_and_in_another_process(spill, monkeypatch, name):
    monkeypatch.setattr(on_disk, "_ROWS_AT_ONCE", 1000)
    column = COLUMNS[name]
    kept = DiskColumn.of(spill, len(column), np.array_split(column, 2), column.dtype)
    spill.keep({"after": np.arange(9)})
    for held in (kept, pickle.loads(pickle.dumps(kept))):  # noqa: S301 - our own
        found = held()
        assert found.dtype == column.dtype
        np.testing.assert_array_equal(found, column)
        np.testing.assert_array_equal(np.concatenate([*held.parts()]), column)
        assert found.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            found[...] = 1


def test_a_column_of_one_value_is_whole(spill):
    for held in (column := DiskColumn.alike(spill, 5, -1), pickle.loads(pickle.dumps(column))):  # noqa: S301 - our own
        assert held.count == 5
        assert held().tolist() == [-1] * 5
        assert np.concatenate([*held.parts()]).tolist() == [-1] * 5


@given(rows=st.lists(st.integers(0, 99), unique=True), apart=st.sampled_from([1, 1 << 12]))
def test_rows_are_filled_in_any_order(spill, rows, apart):
    count = 100 * apart
    at, expected = np.array(rows, dtype=np.int64) * apart, np.zeros(count, dtype=np.int32)
    held = DiskColumn(spill, count)
    after = spill.keep({"start": np.arange(5)})
    expected[at] = np.arange(len(at)) + 1
    held.fill(at, np.arange(len(at)) + 1)
    np.testing.assert_array_equal(held(), expected)
    assert spill.read(after["start"]).tolist() == [0, 1, 2, 3, 4]


def test_a_table_is_the_table_in_another_process(table):
    found = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    for name, column in table.items():
        np.testing.assert_array_equal(found[name], column)


def test_a_full_disk_is_an_error(scratch, monkeypatch):
    monkeypatch.setattr(spilling, "_HELD_BYTES", 0)
    held = DiskColumn(Spill(scratch), 3)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError) as failed:  # noqa: PT011 - the number tells
        held.fill(np.arange(3), np.arange(3))
    assert failed.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    "rows",
    [
        np.array([7, 0, 3, 2, 2]),
        np.array([], dtype=np.int64),
        np.array([4]),
        *(slice(0, 8), slice(2, 4), slice(5, 5), slice(8, 8)),
    ],
    ids=str,
)
def test_chosen_rows_are_those_of_the_whole_column(table, rows):
    for name in table:
        assert table.select(rows)[name].tolist() == table[name][rows].tolist()


def test_no_row_has_the_other_value(table):
    rows = np.array([-1, 6, 0, -1])
    assert table.at("letter", rows).tolist() == [-1, 68, 65, -1]
    assert table.at("start", rows, np.array([9, 8, 7, 6])).tolist() == [9, 6, 0, 6]


def test_parts_are_all_rows(table, monkeypatch):
    monkeypatch.setattr(on_disk, "_ROWS_AT_ONCE", 5)
    parts = [part["start"].tolist() for part in table.parts()]
    assert parts == [[0, 1, 2, 3, 4], [5, 6, 7]]
    none = Columns(table.spill, [table.spill.keep({"start": np.arange(0)})])
    assert [part["start"].tolist() for part in none.parts()] == [[]]


def test_rows_are_found_by_their_name(spill):
    names = Columns(spill, [spill.keep({"start": np.arange(4), "name": np.array([2, 0, 1, 2])})])
    assert names.named(np.array([False, True, True])).tolist() == [0, 2, 3]
