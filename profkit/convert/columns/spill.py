"""Files that the columns of a trace are kept in, and read back from one at a time.

A trace of gigabytes holds tens of millions of numbers; of these linking wants a few columns at any
moment. The files are written and read in order, so that mostly the system's cache is asked. The
columns of a small trace stay in memory.
"""

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from profkit.convert.columns.numbering import Column

_ALIGNED_BYTES = 8
_HELD_BYTES = 4 << 20
"""Of each recording stay in memory."""


class Piece(NamedTuple):
    """One column of some rows: where its bytes are, or the value that all rows have."""

    path: str
    offset: int
    rows: int
    dtype: str
    value: int | float | None
    renumbering: int
    """Which of `Spill.renumberings` its numbers go through; -1 for none."""
    held: Column | None = None
    """Its rows, if they are in memory."""


class Layout(NamedTuple):
    """Where one column lies in blocks that are alike."""

    bytes_before: int
    """Bytes of the columns before it, per row."""
    dtype: str
    value: int | float | None


_NO_OTHERS: Mapping[str, Layout] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Some rows of a table. A large trace has tens of thousands, which share what they can."""

    path: str
    offset: int
    rows: int
    layouts: Mapping[str, Layout]
    renumberings: Mapping[str, int] = field(default_factory=dict)
    """Which of `Spill.renumberings` the numbers of some columns go through."""
    held: dict[str, Column] = field(default_factory=dict)
    """The columns that are in memory."""

    def __getitem__(self, name: str) -> Piece:
        """Return one column."""
        before, dtype, value = self.layouts[name]
        offset = self.offset + before * self.rows
        renumbering = self.renumberings.get(name, -1)
        return Piece(self.path, offset, self.rows, dtype, value, renumbering, self.held.get(name))


class Scratch:
    """A folder that is removed when nothing in this process refers to it any more.

    To another process it goes as the path alone, which that one need not care for.
    """

    def __init__(self, within: Path | None = None) -> None:
        self._within = within

    @cached_property
    def path(self) -> Path:
        """The folder; there is none before it is asked for, as nothing is kept of small traces."""
        path = Path(tempfile.mkdtemp(prefix="profkit-", dir=self._within))
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: the path of the folder."""
        return {"path": self.path}


class Spill:
    """The file that one process appends blocks to, and those of others that it reads."""

    def __init__(self, scratch: Scratch, renumberings: Sequence[Column] = ()) -> None:
        self.scratch = scratch
        self.renumberings = [*renumberings]
        self._files: dict[str, BinaryIO] = {}
        self._path = ""
        self._end = 0
        self._left = _HELD_BYTES
        self._layouts: dict[tuple[tuple[str, Layout], ...], dict[str, Layout]] = {}
        weakref.finalize(self, _close, self._files)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process needs to read the same blocks; it appends to its own file."""
        return Spill, (self.scratch, self.renumberings)

    def keep(
        self, columns: Mapping[str, Column], others: Mapping[str, Layout] = _NO_OTHERS
    ) -> Block:
        """Append a block of rows: arrays of one dimension and equal length.

        `others` are columns whose rows all have one value, for those that `columns` leave out.
        """
        layouts, varying = dict(others), {}
        before = 0
        for name, column in columns.items():
            layouts[name] = Layout(before, column.dtype.str, _constant(column))
            if layouts[name].value is None:
                varying[name] = np.ascontiguousarray(column)
                before += column.dtype.itemsize
        size = before * len(column)
        is_held = self._holds(size)
        block = Block(
            path="" if is_held else self._own(),
            offset=self._end,
            rows=len(column),
            layouts=self._layouts.setdefault(tuple(layouts.items()), layouts),
            held={name: _unchangeable(own) for name, own in varying.items()} if is_held else {},
        )
        if not is_held:
            # So that numbers of the next block may be mapped where they lie.
            parts = (own.data.cast("B") for own in varying.values())
            content = b"".join([*parts, bytes(-size % _ALIGNED_BYTES)])
            self._end += len(content)
            if self._files[self._path].write(content) < len(content):
                raise _full(self._path)
        return block

    def _holds(self, size: int) -> bool:
        """Say whether so many bytes more stay in memory."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def reserved(self, rows: int, dtype: np.dtype[Any]) -> Piece:
        """Return a column whose rows are 0 until they are written."""
        if self._holds(rows * dtype.itemsize):
            return Piece("", 0, rows, dtype.str, None, -1, np.zeros(rows, dtype))
        file = self._opened(path := self._own())
        piece = Piece(path, self._end, rows, dtype.str, None, -1)
        size = rows * dtype.itemsize
        self._end += size + -size % _ALIGNED_BYTES
        file.truncate(self._end)
        file.seek(self._end)
        return piece

    def write(self, piece: Piece, first: int, column: Column) -> None:
        """Write rows of a reserved column, from number `first` on."""
        if piece.held is not None:
            piece.held[first : first + len(column)] = column
            return
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
        if piece.held is not None:
            column = _unchangeable(piece.held)
        elif piece.value is not None:
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
        """Return what `read` does, each page read when it is used; the piece has no renumbering."""
        if piece.held is not None:
            return _unchangeable(piece.held)
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
            handle, self._path = tempfile.mkstemp(dir=self.scratch.path)
            self._files[self._path] = os.fdopen(handle, "w+b", buffering=0)
        return self._path

    def _opened(self, path: str) -> BinaryIO:
        if path not in self._files:
            self._files[path] = os.fdopen(os.open(path, os.O_RDONLY), "rb", buffering=0)
        return self._files[path]


def _unchangeable(column: Column) -> Column:
    view = column.view()
    view.flags.writeable = False
    return view


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
