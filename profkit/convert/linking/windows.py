"""Rows of a trace by thread and window of time, so that linking needs few of them at once.

A window ends where all open rows enclose what follows. Such rows are carried into
the next window; all others are done with. Where rows cross instead of nesting, a window goes on
until they have ended, and memory grows with it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.spill import Block
from profkit.convert.columns.values import LATEST_NS, Ints
from profkit.core.errors import InputError

WINDOW_ROWS = 1 << 16
"""About how many rows a window has."""
EARLIEST_NS = -2 * LATEST_NS
_LATEST = 2 * LATEST_NS
_MOST_THREADS = 4_000
"""More than any process has; each costs some ms, and a part of what each block of rows costs."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of some tables; they are numbered in the order of their own number."""

    pids: Ints
    tids: Ints

    def of_block(self, columns: Columns, block: Block) -> Column:
        """Return the number of the thread of each row; no memory is needed if all are of one."""
        pid, tid = (columns.of_block(block, name)[: _needed(block, name)] for name in _THREAD)
        return np.broadcast_to(self.numbers(pid, tid), (block.rows,))

    def numbers(self, pid: Column, tid: Column) -> Column:
        """Return the number of the thread for each process and thread."""
        process = np.searchsorted(self.pids, pid)
        return (np.searchsorted(self.tids, tid) * len(self.pids) + process).astype(np.int32)

    def ids(self, number: int) -> dict[str, int]:
        """Return process and thread of a number."""
        tid, pid = divmod(number, len(self.pids))
        return {"pid": int(self.pids[pid]), "tid": int(self.tids[tid])}


_THREAD = ("pid", "tid")


def _needed(block: Block, name: str) -> int:
    """Return how many rows of a column have to be read: one, where all are equal."""
    return min(block.rows, 1) if block[name].value is not None else block.rows


def threads_of(tables: Sequence[Columns]) -> Threads:
    """Return the threads of all rows of `tables`."""
    found: dict[str, set[int]] = {name: set() for name in _THREAD}
    for columns in tables:
        for block in columns.blocks:
            for name in _THREAD:
                if (single := block[name].value) is None:
                    found[name].update(np.unique(columns.of_block(block, name)).tolist())
                elif block.rows:
                    found[name].add(int(single))
    _refuse_many(max(map(len, found.values())))
    pids, tids = (np.array(sorted(found[name]), dtype=np.int64) for name in _THREAD)
    return Threads(pids, tids)


def _refuse_many(threads: int) -> None:
    if threads > _MOST_THREADS:
        raise InputError(
            f"refused: it has rows of more than {_MOST_THREADS:,} threads or processes",
            hint="their numbers are damaged, or another program wrote it",
        )


@dataclass(frozen=True, slots=True)
class _BlockRows:
    """The rows of one thread in one block."""

    table: int
    block: int
    first_row: int
    """Of the block, in the table."""
    rows: int
    begin: int
    last: int


class Rows:
    """Rows of some tables by thread and time, without reading them all."""

    def __init__(self, tables: Sequence[Columns], threads: Threads | None) -> None:
        """Keep the rows of `threads` apart; without them all rows are of one thread, number 0."""
        self.tables = tables
        self._threads = threads
        self._blocks: dict[int, list[_BlockRows]] = defaultdict(list)
        for number, columns in enumerate(tables):
            first = 0
            for at, block in enumerate(columns.blocks):
                self._add(number, at, first)
                first += block.rows
                _refuse_many(len(self._blocks))

    def _add(self, table: int, at: int, first: int) -> None:
        columns = self.tables[table]
        block = columns.blocks[at]
        if not block.rows:
            return
        start, thread = columns.of_block(block, "start"), self._thread(columns, block)
        single = thread.strides == (0,)
        for number in np.unique(thread[: 1 if single else None]).tolist():
            own = start if single else start[thread == number]
            part = _BlockRows(table, at, first, len(own), int(own.min()), int(own.max()))
            self._blocks[number].append(part)

    def _thread(self, columns: Columns, block: Block) -> Column:
        if self._threads is None:
            return np.broadcast_to(np.int32(0), (block.rows,))
        return self._threads.of_block(columns, block)

    def numbers(self) -> list[int]:
        """Return the threads that have rows, in order."""
        return sorted(self._blocks)

    def cuts(self, thread: int) -> list[int]:
        """Return times to cut a thread's rows at, in order, and after them all."""
        cuts, rows = [], 0
        for part in sorted(self._blocks[thread], key=lambda part: part.begin):
            if rows >= WINDOW_ROWS:
                cuts.append(part.begin)
                rows = 0
            rows += part.rows
        return [*dict.fromkeys(cuts), _LATEST]

    def read(
        self, thread: int, begin: int, until: int, names: Sequence[Sequence[str]]
    ) -> list[dict[str, Column]]:
        """Return rows of one thread that start in ``[begin, until)``, in the order of the file.

        For each table those columns that `names` lists for it, and `row`, their position in it.
        """
        found: list[list[dict[str, Column]]] = [[] for _ in self.tables]
        for part in self._blocks[thread]:
            if part.begin < until and part.last >= begin:
                found[part.table].append(self._of(part, thread, begin, until, names[part.table]))
        return [
            _joined(parts, [*names[at], "row"]) if parts else self._nothing(at, names[at])
            for at, parts in enumerate(found)
        ]

    def _of(
        self, part: _BlockRows, thread: int, begin: int, until: int, names: Sequence[str]
    ) -> dict[str, Column]:
        columns = self.tables[part.table]
        block = columns.blocks[part.block]
        start = columns.of_block(block, "start")
        inside: slice | Column = slice(None)
        if not (begin <= part.begin and part.last < until and part.rows == len(start)):
            own = self._thread(columns, block) == thread
            inside = np.flatnonzero(own & (start >= begin) & (start < until))
        read = {name: columns.of_block(block, name)[inside] for name in names}
        return read | {"row": np.arange(part.first_row, part.first_row + len(start))[inside]}

    def _nothing(self, table: int, names: Sequence[str]) -> dict[str, Column]:
        columns = self.tables[table]
        empty = {name: columns.of_block(columns.blocks[0], name)[:0] for name in names}
        return empty | {"row": np.empty(0, dtype=np.int64)}


def _joined(parts: Sequence[dict[str, Column]], names: Sequence[str]) -> dict[str, Column]:
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in names}


class Windows:
    """One thread's windows: each is taken as it is, or made larger."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self._cuts = cuts
        self._at = 0
        self._step = 1
        self._larger = False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield where each begins and ends."""
        begin = EARLIEST_NS
        while self._at < len(self._cuts):
            until = self._cuts[self._at]
            self._larger = False
            yield begin, until
            if self._larger and until < _LATEST:
                # Twice as far each time: what is read again and again stays a part of it all.
                self._step *= 2
            else:
                begin, self._step = until, 1
            last = len(self._cuts) - 1
            self._at = self._at + 1 if self._at == last else min(self._at + self._step, last)

    def grow(self) -> None:
        """Ask for the window that was yielded last once more, with a later end."""
        self._larger = True


def carried(start: Ints, end: Ints, opens: NDArray[np.bool_], until: int) -> Ints | None:
    """Return the rows that enclose what starts from `until` on; None if any crosses another.

    Rows are of one thread, sorted by start and from the outside in, and begin before `until`.
    """
    rows = np.flatnonzero(opens & (end > until))
    begun = start[rows]
    if (np.diff(end[rows]) > 0).any():
        return None
    over = np.flatnonzero(opens & (end <= until))
    later = np.searchsorted(begun, start[over], side="right")
    inside = later < len(begun)
    crossing = begun[later[inside]] < end[over[inside]]
    return None if crossing.any() else rows
