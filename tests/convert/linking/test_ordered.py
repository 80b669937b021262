"""Tables in order of time, and rows by the numbers that they carry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.convert.columns import on_disk
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.spill import Scratch, Spill
from profkit.convert.linking import ordered as orders
from profkit.convert.linking import windows
from profkit.convert.linking.ordered import Ordered, first_with, ranges

_SOME = pytest.mark.parametrize("at_once", [3, 1 << 20], ids=["a few at once", "all at once"])


@pytest.fixture(scope="module")
def scratch():
    return Scratch()


def kept(scratch, **columns):
    """Return columns in blocks of 4 rows."""
    spill = Spill(scratch)
    arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    limits = range(0, max(len(arrays["start"]), 1), 4)
    blocks = [{name: column[at : at + 4] for name, column in arrays.items()} for at in limits]
    return Columns(spill, [spill.keep(block) for block in blocks])


@pytest.fixture
def sized(monkeypatch, at_once):
    for module, name in (
        (on_disk, "_ROWS_AT_ONCE"),
        (orders, "_NUMBERS_AT_ONCE"),
        (windows, "WINDOW_ROWS"),
    ):
        monkeypatch.setattr(module, name, at_once)
    monkeypatch.setattr(orders, "_SAMPLED", 1)


@_SOME
@pytest.mark.usefixtures("sized")
@given(start=st.lists(st.integers(0, 12), max_size=30))
def test_rows_come_by_start_and_then_as_in_the_file(scratch, start):
    found = Ordered(kept(scratch, start=start, size=[10 * time for time in start]))
    expected = sorted(range(len(start)), key=start.__getitem__)
    assert found.rows(slice(None)).tolist() == expected
    assert found.column("size")().tolist() == [10 * start[row] for row in expected]


@_SOME
@pytest.mark.usefixtures("sized")
def test_the_earliest_call_of_a_correlation_launches(scratch):
    calls = kept(
        scratch,
        correlation=[5, 7, 5, 0, 8, 5, 7, -4],
        start=[9, 1, 2, 3, 4, 2, 1, 0],
    )
    wanted = np.array([5, 7, 6, 0, -1, 8, -4, 5, np.iinfo(np.int64).max])
    held = DiskColumn.of(calls.spill, len(wanted), [wanted], np.int64)
    found = first_with(calls, "correlation", held)
    assert found().tolist() == [2, 1, -1, -1, -1, 4, -1, 2, -1]


@_SOME
@pytest.mark.usefixtures("sized")
@given(
    rows=st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 3)), max_size=30),
    wanted=st.lists(st.integers(-1, 9), max_size=30),
)
def test_rows_are_looked_up_as_in_a_dictionary(scratch, rows, wanted):
    columns = kept(scratch, key=[key for key, _ in rows], start=[start for _, start in rows])
    first = {}
    for row in sorted(range(len(rows)), key=lambda row: rows[row][1]):
        first.setdefault(rows[row][0], row)
    held = DiskColumn.of(columns.spill, len(wanted), [np.array(wanted, dtype=np.int64)], np.int64)
    expected = [first.get(number, -1) if number > 0 else -1 for number in wanted]
    assert first_with(columns, "key", held)().tolist() == expected


def test_ranges_hold_every_number_once(monkeypatch):
    monkeypatch.setattr(orders, "_NUMBERS_AT_ONCE", 4)
    monkeypatch.setattr(orders, "_SAMPLED", 2)
    numbers = np.concatenate([np.arange(20), np.full(9, 7), [-(1 << 63), (1 << 63) - 1]])
    found = ranges([numbers[:11], numbers[11:]])
    inside = [((numbers >= low) & (numbers < high)).sum() for low, high in found]
    assert len(found) > 3
    assert sum(inside) == len(numbers)
