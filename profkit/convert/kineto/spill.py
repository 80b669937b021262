"""Columns of a trace that are kept in files, and read back one at a time.

A trace of gigabytes holds tens of millions of numbers; of these linking wants a few columns at any
moment. The files are written and read in order, so that mostly the system's cache is asked.
"""

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from profkit.convert.kineto.numbering import Column
from profkit.paths import ordered

_ALIGNED_BYTES = 8
_CLOSE_ROWS = 1 << 12
_ROWS_AT_ONCE = 1 << 15


class Piece(NamedTuple):
    """One column of one block of rows: where its bytes are, or the value that all rows have."""

    path: str
    offset: int
    rows: int
    dtype: str
    value: int | float | None
    renumbering: int
    """Which of `Spill.renumberings` its numbers go through; -1 for none."""


Block = dict[str, Piece]


class Scratch:
    """A folder that is gone when nobody in this process holds this any more.

    To another process it goes as the path alone, which that one need not care for.
    """

    def __init__(self, within: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="profkit-", dir=within))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Spill:
    """The file that one process appends blocks to, and those of others that it reads."""

    def __init__(self, folder: Path, renumberings: Sequence[Column] = ()) -> None:
        self.folder = folder
        self.renumberings = [*renumberings]
        self._files: dict[str, BinaryIO] = {}
        self._path = ""
        self._end = 0
        weakref.finalize(self, _close, self._files)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process needs to read the same blocks; it appends to its own file."""
        return Spill, (self.folder, self.renumberings)

    def keep(self, columns: Mapping[str, Column]) -> Block:
        """Append a block of rows: arrays of one dimension and equal length."""
        block = Block()
        parts: list[bytes | memoryview] = []
        for name, column in columns.items():
            value = _constant(column)
            path = "" if value is not None else self._own()
            block[name] = Piece(path, self._end, len(column), column.dtype.str, value, -1)
            if value is None:
                parts.append(np.ascontiguousarray(column).data.cast("B"))
                self._end += column.nbytes
        if parts:
            # So that numbers of the next block may be mapped where they lie.
            parts.append(bytes(-self._end % _ALIGNED_BYTES))
            self._end += len(parts[-1])
            content = b"".join(parts)
            if self._files[self._path].write(content) < len(content):
                raise _full(self._path)
        return block

    def reserved(self, rows: int, dtype: np.dtype[Any]) -> Piece:
        """Return a column whose rows are 0 until they are written."""
        file = self._opened(path := self._own())
        piece = Piece(path, self._end, rows, dtype.str, None, -1)
        size = rows * dtype.itemsize
        self._end += size + -size % _ALIGNED_BYTES
        file.truncate(self._end)
        file.seek(self._end)
        return piece

    def write(self, piece: Piece, first: int, column: Column) -> None:
        """Write rows of a reserved column, from number `first` on."""
        if not len(column):
            return
        content = np.ascontiguousarray(column, dtype=piece.dtype).data.cast("B")
        offset = piece.offset + first * np.dtype(piece.dtype).itemsize
        if os.pwrite(self._opened(piece.path).fileno(), content, offset) < len(content):
            raise _full(piece.path)

    def read(self, piece: Piece) -> Column:
        """Return the column of one block; it must not be written to."""
        dtype = np.dtype(piece.dtype)
        column: Column
        if piece.value is not None:
            single = dtype.type(piece.value).tobytes()
            # As `np.broadcast_to`, which takes 25 us: there are ten thousands of these.
            column = np.ndarray((piece.rows,), dtype, single, strides=(0,))
        else:
            size = piece.rows * dtype.itemsize
            content = os.pread(self._opened(piece.path).fileno(), size, piece.offset)
            column = np.frombuffer(content, dtype=dtype)
        numbers = piece.renumbering
        return column if numbers < 0 else self.renumberings[numbers][column]

    def mapped(self, piece: Piece) -> Column:
        """Return what `read` does, unread as far as nobody looks; the piece has no renumbering."""
        if piece.value is not None or not piece.rows:
            return self.read(piece)
        before = piece.offset % mmap.ALLOCATIONGRANULARITY
        size = before + piece.rows * np.dtype(piece.dtype).itemsize
        pages = mmap.mmap(
            self._opened(piece.path).fileno(),
            size,
            access=mmap.ACCESS_READ,
            offset=piece.offset - before,
        )
        return np.frombuffer(pages, piece.dtype, piece.rows, before)

    def _own(self) -> str:
        if not self._path:
            # Without a buffer: blocks are large, and what is read must have been written.
            handle, self._path = tempfile.mkstemp(dir=self.folder)
            self._files[self._path] = os.fdopen(handle, "w+b", buffering=0)
        return self._path

    def _opened(self, path: str) -> BinaryIO:
        if path not in self._files:
            self._files[path] = os.fdopen(os.open(path, os.O_RDONLY), "rb", buffering=0)
        return self._files[path]


def _close(files: Mapping[str, BinaryIO]) -> None:
    for file in files.values():
        file.close()


def _full(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _constant(column: Column) -> int | float | None:
    """Return the value that all rows have, None if they differ."""
    if not len(column):
        return 0
    if column[0] != column[-1] or not (column == column[0]).all():
        return None
    value: int | float = column[0].item()
    return value


def slices(count: int) -> Iterator[slice]:
    """Yield which of `count` rows are worked on at once; once, none of them, if there are none."""
    for first in range(0, max(count, 1), _ROWS_AT_ONCE):
        yield slice(first, min(first + _ROWS_AT_ONCE, count))


class Held:
    """A column that is kept in a file, and in memory only as far as somebody looks at it."""

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
        held, first = cls(spill, count, dtype), 0
        for part in parts:
            spill.write(held._piece, first, part)
            first += len(part)
        return held

    def __call__(self) -> Column:
        """Return the column, which must not be written to."""
        return self._spill.mapped(self._piece)

    def parts(self) -> Iterator[Column]:
        """Yield the column, some rows at a time."""
        return (self()[rows] for rows in slices(self.count))

    def fill(self, rows: Column, values: Column) -> None:
        """Write some rows, in any order: those that lie close together at once."""
        if not len(rows):
            return
        first, last = int(rows.min()), int(rows.max())
        if last - first < _CLOSE_ROWS + 4 * len(rows):
            between = self()[first : last + 1].copy()
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
        self.blocks = blocks

    def __getitem__(self, name: str) -> Column:
        """Return all rows of a column."""
        return np.concatenate([self.of_block(each, name) for each in self.blocks])

    def chosen(self, rows: slice | Column) -> "Chosen":
        """Return some rows: those of the numbers `rows`, in this order, or from one to another."""
        if isinstance(rows, slice):
            return Chosen(self, self._between(rows.start, rows.stop), None)
        block, back = self._block_of(rows), None
        if (block[1:] < block[:-1]).any():
            order = ordered(block)
            block, rows, back = block[order], rows[order], np.empty_like(order)
            back[order] = np.arange(len(order))
        cuts = np.flatnonzero(np.diff(block)) + 1
        at = block[[0, *cuts]] if len(block) else [0]
        parts = zip(at, np.split(rows, cuts), strict=True)
        found = [(self.blocks[each], part - self._firsts[each]) for each, part in parts]
        return Chosen(self, found, back)

    def _between(self, start: int, stop: int) -> list[tuple[Block, slice]]:
        """Return the blocks with rows from `start` to `stop`, and which of theirs these are."""
        first, last = self._block_of([start, max(start, stop - 1)]).tolist()
        firsts = self._firsts[first : last + 1].tolist()
        rows = [slice(max(start - before, 0), stop - before) for before in firsts]
        return list(zip(self.blocks[first : last + 1], rows, strict=True))

    def parts(self) -> Iterator["Chosen"]:
        """Yield all rows, some at a time."""
        return map(self.chosen, slices(self.count))

    def at(self, name: str, rows: Column, otherwise: int | Column = -1) -> Column:
        """Return a column of integers in some rows, and `otherwise` for row -1."""
        found = np.broadcast_to(np.asarray(otherwise, dtype=np.int64), rows.shape).copy()
        known = rows >= 0
        found[known] = self.chosen(rows[known])[name]
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
        return iter(self.blocks[0])

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.blocks[0])

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self._firsts[-1])

    @cached_property
    def _firsts(self) -> Column:
        """Number of the first row of each block, and of the one after the last."""
        return np.cumsum([0, *(block["start"].rows for block in self.blocks)])

    def _block_of(self, rows: Column | list[int]) -> Column:
        """Return which block each row is in."""
        return np.searchsorted(self._firsts[1:-1], rows, side="right")

    def of_block(self, block: Block, name: str) -> Column:
        """Return the rows of one block."""
        return self.spill.read(block[name])

    def each(self, name: str) -> Iterator[Column]:
        """Yield the rows of a column block by block."""
        return (self.of_block(block, name) for block in self.blocks)


class Chosen(Mapping[str, Column]):
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
        read = self._columns.of_block
        column = np.concatenate([read(block, name)[rows] for block, rows in self._blocks])
        return column if self._back is None else column[self._back]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)
