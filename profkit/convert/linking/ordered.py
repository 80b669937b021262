"""The rows of a table in order of time, and those that carry a number which others ask for.

Both are found some rows at a time, whatever the size of the table.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn, SelectedRows, slices
from profkit.convert.columns.values import Ints
from profkit.convert.linking.windows import EARLIEST_NS, WINDOW_ROWS, Rows

_NUMBERS_AT_ONCE = 1 << 17
_SAMPLED = 64
_LARGEST = np.iinfo(np.int64).max


class Ordered:
    """The rows of a table by start, those that start at once in the order of the file."""

    def __init__(self, columns: Columns) -> None:
        self.table = columns
        self.count = columns.count
        self._rows = DiskColumn.of(columns.spill, columns.count, _by_start(columns))

    def rows(self, at: slice | Column) -> Column:
        """Return which rows of the table stand at some positions."""
        return self._rows()[at]

    def select(self, at: slice | Column) -> SelectedRows:
        """Return the rows at some positions."""
        return self.table.select(self.rows(at))

    def column(self, name: str) -> DiskColumn:
        """Return a column of integers in order."""
        parts = (self.select(rows)[name] for rows in slices(self.count))
        return DiskColumn.of(self.table.spill, self.count, parts, np.int64)


def _by_start(columns: Columns) -> Iterator[Column]:
    if columns.count <= WINDOW_ROWS:
        yield np.argsort(columns["start"], kind="stable")
        return
    rows = Rows([columns], None)
    for begin, until in pairwise([EARLIEST_NS, *rows.cuts(0)]):
        [found] = rows.read(0, begin, until, [("start",)])
        yield found["row"][np.argsort(found["start"], kind="stable")]


def ranges(numbers: Iterable[Ints]) -> list[tuple[int, int]]:
    """Return ranges that together hold all numbers, each about as many as are worked on at once."""
    sampled = np.concatenate([part[::_SAMPLED] for part in numbers])
    step = max(_NUMBERS_AT_ONCE // _SAMPLED, 1)
    cuts = np.unique(np.sort(sampled)[step::step]).tolist() if len(sampled) > step else []
    return list(pairwise([-_LARGEST - 1, *cuts, _LARGEST + 1]))


def first_with(columns: Columns, key: str, wanted: DiskColumn) -> DiskColumn:
    """Return for each number that is `wanted` the row that has it as its `key`; -1 if none.

    Of several it is the first to start. Numbers below 1 stand for none.
    """
    found = DiskColumn(columns.spill, wanted.count)
    for low, high in ranges(wanted.parts()):
        asked = [part[(part > 0) & (part >= low) & (part < high)] for part in wanted.parts()]
        distinct = np.unique(np.concatenate([*asked, [_LARGEST]]))
        row = _first(columns, key, distinct)
        for rows, part in zip(slices(wanted.count), wanted.parts(), strict=True):
            own = np.flatnonzero((part >= low) & (part < high))
            at = np.searchsorted(distinct, part[own])
            found.fill(rows.start + own, np.where(distinct[at] == part[own], row[at], -1))
    return found


def _first(columns: Columns, key: str, asked: Ints) -> Ints:
    """Return for each of the sorted numbers `asked`, the largest there is at last, the row."""
    row, begun = np.full(len(asked), -1), np.full(len(asked), _LARGEST)
    if len(asked) == 1:
        return row
    for rows, part in zip(slices(columns.count), columns.parts(), strict=True):
        numbers = part[key]
        at = np.searchsorted(asked, numbers)
        own = np.flatnonzero(asked[at] == numbers)
        at, start = at[own], part["start"][own]
        order = np.lexsort((start, at))
        _, lead = np.unique(at[order], return_index=True)
        earlier = order[lead]
        earlier = earlier[start[earlier] < begun[at[earlier]]]
        begun[at[earlier]] = start[earlier]
        row[at[earlier]] = rows.start + own[earlier]
    return row
