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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from profkit.convert.kineto.numbering import Column

_ALIGNED_BYTES = 8


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
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        return block

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


def _constant(column: Column) -> int | float | None:
    """Return the value that all rows have, None if they differ."""
    if not len(column):
        return 0
    if column[0] != column[-1] or not (column == column[0]).all():
        return None
    value: int | float = column[0].item()
    return value


class Held:
    """A column that is kept in a file, and in memory only as far as somebody looks at it."""

    def __init__(self, spill: Spill, column: Column) -> None:
        self._spill = spill
        self._piece = spill.keep({"": column})[""]

    def __call__(self) -> Column:
        """Return the column, which must not be written to."""
        return self._spill.mapped(self._piece)


class Spilling(Protocol):
    """What has columns that are kept in files."""

    @property
    def spill(self) -> Spill:
        """The file to keep them in."""


class held:  # noqa: N801 - as `cached_property`
    """A property that is found once, as `cached_property` does, and then is `Held`."""

    def __init__(self, find: Callable[[Any], Column]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._key = f"{name} in a file"

    def __get__(self, instance: Spilling, owner: type[Any]) -> Column:
        """Return the column, which must not be written to."""
        if self._key not in instance.__dict__:
            instance.__dict__[self._key] = Held(instance.spill, self._find(instance))
        column: Column = instance.__dict__[self._key]()
        return column


class Columns(Mapping[str, Column]):
    """The columns of one table: each is read when it is asked for, and not kept."""

    def __init__(
        self,
        spill: Spill,
        blocks: Sequence[Block],
        others: Mapping[str, Column] | None = None,
    ) -> None:
        self.spill = spill
        self.blocks = blocks
        self.others = dict(others or {})
        """Columns that are at hand: they count before those of the blocks."""

    def __getitem__(self, name: str) -> Column:
        """Return all rows of a column."""
        if name in self.others:
            return self.others[name]
        return np.concatenate([self.of_block(each, name) for each in self.blocks])

    def at(self, name: str, rows: Column) -> Column:
        """Return some rows of a column; only the blocks between the first and the last are read."""
        if name in self.others:
            return self.others[name][rows]
        if not len(rows):
            return self.of_block(self.blocks[0], name)[:0]
        first, last = np.searchsorted(self._ends, [rows.min(), rows.max()], side="right")
        between = [self.of_block(each, name) for each in self.blocks[first : last + 1]]
        before = self._ends[first - 1] if first else 0
        column: Column = np.concatenate(between)[rows - before]
        return column

    @cached_property
    def _ends(self) -> Column:
        """Number of the row after the last of each block."""
        return np.cumsum([block["start"].rows for block in self.blocks])

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns."""
        return iter(dict.fromkeys([*self.blocks[0], *self.others]))

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(set(self.blocks[0]) | set(self.others))

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(block["start"].rows for block in self.blocks)

    def of_block(self, block: Block, name: str) -> Column:
        """Return the rows of one block."""
        return self.spill.read(block[name])

    def each(self, name: str) -> Iterator[Column]:
        """Yield the rows of a column block by block."""
        return (self.of_block(block, name) for block in self.blocks)

    def replaced(self, **columns: Column) -> "Columns":
        """Return the same table with some columns in place of its own, or besides them."""
        return Columns(self.spill, self.blocks, self.others | columns)


class Ordered(Mapping[str, Column]):
    """The same in another order of rows."""

    def __init__(self, columns: Columns, rows: Column) -> None:
        self.columns = columns
        self.rows = rows

    def __getitem__(self, name: str) -> Column:
        """Return all rows of a column."""
        return self.columns[name][self.rows]

    def at(self, name: str, rows: slice | Column) -> Column:
        """Return some rows of a column."""
        return self.columns.at(name, self.rows[rows])

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.columns)
