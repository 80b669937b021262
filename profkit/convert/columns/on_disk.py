"""Columns that are kept in files: whole tables, of which some rows are worked on at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.spill import Block, Piece, Spill
from profkit.tables.tree_paths import ordered

_CLOSE_ROWS = 1 << 12
"""Rows that are no further apart are written at once."""
_ROWS_AT_ONCE = 1 << 16


def slices(count: int) -> Iterator[slice]:
    """Yield which of `count` rows are worked on at once; once, none of them, if there are none."""
    for first in range(0, max(count, 1), _ROWS_AT_ONCE):
        yield slice(first, min(first + _ROWS_AT_ONCE, count))


class DiskColumn:
    """A column that is kept in a file, of which only the pages that are used are in memory."""

    def __init__(self, spill: Spill, count: int, dtype: DTypeLike = np.int32) -> None:
        """Make a column whose rows are 0 until they are filled."""
        self.count = count
        """Number of rows."""
        self._spill = spill
        self._piece = spill.reserved(count, np.dtype(dtype))

    @classmethod
    def of(
        cls, spill: Spill, count: int, parts: Iterable[Column], dtype: DTypeLike = np.int32
    ) -> Self:
        """Keep a column of `count` rows that comes in `parts`, one after the other."""
        column, first = cls(spill, count, dtype), 0
        for part in parts:
            spill.write(column._piece, first, part)
            first += len(part)
        return column

    @classmethod
    def alike(cls, spill: Spill, count: int, value: int) -> Self:
        """Return a column whose rows all have one value, which takes no memory; none is filled."""
        column = cls(spill, 0)
        column.count, column._piece = count, Piece("", 0, count, "int32", value, -1)
        return column

    def __call__(self) -> Column:
        """Return the column, which must not be written to."""
        return self._spill.mapped(self._piece)

    def parts(self) -> Iterator[Column]:
        """Yield the column, some rows at a time."""
        return (self()[rows] for rows in slices(self.count))

    def fill(self, rows: Column, values: Column) -> None:
        """Write some rows, each once, in any order: those that lie close together at once."""
        if not len(rows):
            return
        first, last = int(rows.min()), int(rows.max())
        if last - first < _CLOSE_ROWS + 4 * len(rows):
            between = np.empty(last + 1 - first, dtype=values.dtype)
            if len(rows) < len(between):
                between[:] = self()[first : last + 1]
            between[rows - first] = values
            self._spill.write(self._piece, first, between)
            return
        below = rows < (first + last + 1) // 2
        for part in (below, ~below):
            self.fill(rows[part], values[part])


class Columns(Mapping[str, Column]):
    """The columns of one table: each is read when it is asked for, and not kept."""

    def __init__(self, spill: Spill, blocks: Sequence[Block]) -> None:
        self.spill = spill
        self.blocks = [block for block in blocks if block.rows] or blocks[:1]

    def __getitem__(self, name: str) -> Column:
        """Return all rows of a column."""
        return _concatenated([self.of_block(block, name) for block in self.blocks])

    def select(self, rows: slice | Column) -> "SelectedRows":
        """Return some rows: those of the numbers `rows`, in this order, or from one to another."""
        if len(self.blocks) == 1:
            return SelectedRows(self, [(self.blocks[0], rows)], None)
        if isinstance(rows, slice):
            return SelectedRows(self, self._between(rows.start, rows.stop), None)
        block, back = self._block_of(rows), None
        if (block[1:] < block[:-1]).any():
            order = ordered(block)
            block, rows, back = block[order], rows[order], np.empty_like(order)
            back[order] = np.arange(len(order))
        cuts = np.flatnonzero(np.diff(block)) + 1
        at = block[[0, *cuts]] if len(block) else [0]
        parts = zip(at, np.split(rows, cuts), strict=True)
        found = [(self.blocks[number], part - self._firsts[number]) for number, part in parts]
        return SelectedRows(self, found, back)

    def _between(self, start: int, stop: int) -> list[tuple[Block, slice]]:
        """Return the blocks with rows from `start` to `stop`, and which of theirs these are."""
        first, last = self._block_of([start, max(start, stop - 1)]).tolist()
        firsts = self._firsts[first : last + 1].tolist()
        rows = [slice(max(start - before, 0), stop - before) for before in firsts]
        return list(zip(self.blocks[first : last + 1], rows, strict=True))

    def parts(self) -> Iterator["SelectedRows"]:
        """Yield all rows, some at a time."""
        return map(self.select, slices(self.count))

    def at(self, name: str, rows: Column, otherwise: int | Column = -1) -> Column:
        """Return a column of integers in some rows, and `otherwise` for row -1."""
        found = np.empty(len(rows), dtype=np.int64)
        found[:] = otherwise
        known = rows >= 0
        found[known] = self.select(rows[known])[name]
        return found

    def named(self, flags: Column) -> Column:
        """Return the rows with names whose numbers have their flag set."""
        found = [
            rows.start + np.flatnonzero(flags[part["name"]])
            for rows, part in zip(slices(self.count), self.parts(), strict=True)
        ]
        return np.concatenate(found)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns."""
        return iter(self.blocks[0].layouts)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.blocks[0].layouts)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a column, without reading it."""
        return name in self.blocks[0].layouts

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(block.rows for block in self.blocks)

    @cached_property
    def _firsts(self) -> Column:
        """Number of the first row of each block, and of the one after the last."""
        return np.cumsum([0, *(block.rows for block in self.blocks)])

    def _block_of(self, rows: Column | list[int]) -> Column:
        """Return which block each row is in."""
        return np.searchsorted(self._firsts[1:-1], rows, side="right")

    def of_block(self, block: Block, name: str) -> Column:
        """Return the rows of one block."""
        if (held := block.held.get(name)) is not None and not block.renumberings:
            return held
        column = self.spill.read(block[name])
        if block.held and not block.renumberings:
            block.held[name] = column  # one value for all rows, which takes no memory
        return column

    def each(self, name: str) -> Iterator[Column]:
        """Yield the rows of a column block by block."""
        return (self.of_block(block, name) for block in self.blocks)


class SelectedRows(Mapping[str, Column]):
    """Some rows of a table; blocks that have none of them are not read."""

    def __init__(
        self, columns: Columns, blocks: Sequence[tuple[Block, slice | Column]], back: Column | None
    ) -> None:
        """Choose rows of some blocks, and put them in the order `back`, unless it is None."""
        self._columns = columns
        self._blocks = blocks
        self._back = back

    def __getitem__(self, name: str) -> Column:
        """Return the rows of a column."""
        read, blocks = self._columns.of_block, self._blocks
        if len(blocks) == 1:  # of a small trace, from which thousands of columns are read
            block, rows = blocks[0]
            return read(block, name)[rows]
        column = _concatenated([read(block, name)[rows] for block, rows in blocks])
        return column if self._back is None else column[self._back]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a column, without reading it."""
        return name in self._columns


def _concatenated(columns: Sequence[Column]) -> Column:
    """Return columns one after the other; one alone is not copied."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
