"""Which row encloses which on a thread, and the time that is left to each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import Ints
from profkit.convert.linking.lookup import by_start
from profkit.core.errors import InputError
from profkit.tables.tree_paths import ordered

ROUNDING_NS = 2_000
"""Older traces round starts and durations to µs each, so a child may outlive its parent by this."""

_ASYNCHRONOUS = re.compile(r"(?:gloo|mpi|ucc):")

_CHUNK_ROWS = 1 << 16

_MOST_LEVELS = 4_000
"""Four times as many as Python allows; to look upwards from a row takes that many steps."""

SPAN, POINT = 0, 2
"""What a row is: something with a duration that can enclose others, or an instant."""

LEAF = 1
"""A call, which other calls may nest in but whose children belong to the span around it."""


def is_asynchronous(name: str) -> bool:
    """Return whether a row of this name ends when its work does, on another thread.

    Host collectives are recorded like that: they begin on the thread that asks for them, which
    then goes on. They enclose nothing, and no thread's time is theirs.
    """
    return _ASYNCHRONOUS.match(name) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The result of `nested`, by row."""

    order: Ints
    """Rows by start, and from the outside in."""

    parent: Ints
    """Nearest span around the row; -1 if there is none."""

    end: Ints
    """End, cut where the row would outlive its parent by no more than `ROUNDING_NS`."""

    self_ns: Ints
    """Time not covered by rows inside; 0 for asynchronous rows."""

    cut: int
    """Number of rows whose end was cut."""

    crossing: NDArray[np.bool_]
    """Whether a row outlives the row around it by more, so is asynchronous."""


def nested(
    *,
    start: Ints,
    end: Ints,
    kind: NDArray[np.int8],
    created: Ints,
    asynchronous: NDArray[np.bool_],
) -> Tree:
    """Nest rows of one thread by time; of equal times the one `created` first is the outer one.

    A row that ends after the row around it does not nest. Up to `ROUNDING_NS` that is rounding and
    the end is cut; beyond, the row is asynchronous: it keeps its times and its parent, has no self
    time and encloses nothing.
    """
    order = by_start(start, -end, kind, created)
    begin, alone = start[order], asynchronous[order]
    above, closed, apart, cut = _nested(begin, end[order], kind[order], alone)
    inside = (above >= 0) & ~alone & ~apart
    covered = np.zeros(len(order), dtype=np.int64)
    np.add.at(covered, above[inside], (closed - begin)[inside])
    spare = np.where(apart | alone, 0, closed - begin - covered)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    parent = np.where(above >= 0, order[above], -1) if len(order) else above
    return Tree(
        order=order,
        parent=_nearest_span(parent[back], kind),
        end=closed[back],
        self_ns=spare[back],
        cut=cut,
        crossing=apart[back],
    )


def _nested(
    start: Ints,
    end: Ints,
    kind: NDArray[np.int8],
    alone: NDArray[np.bool_],
) -> tuple[Ints, Ints, NDArray[np.bool_], int]:
    """Return row above, end and whether it is asynchronous of each sorted row, and the ends cut."""
    opens = ~alone & (kind != POINT) & (end > start)
    above, depth = enclosing(start, end, opens)
    closed, apart = end.copy(), np.zeros(len(end), dtype=np.bool_)
    crossing = (above >= 0) & ~alone & (end > end[above]) if len(end) else apart
    if not crossing.any():
        refuse_deep(int(depth.max(initial=0)))
        return above, closed, apart, 0
    # Only between moments at which the thread does nothing do rows that cross change what is above.
    piece = _pieces(start, end, opens)
    rows = np.flatnonzero(np.isin(piece, piece[crossing]))
    refuse_deep(int(np.delete(depth, rows).max(initial=0)))
    slow = _one_by_one(rows, piece, start, end, kind, alone)
    above[rows], closed[rows], apart[rows], cut = slow
    return above, closed, apart, cut


def refuse_deep(levels: int) -> None:
    """Raise `InputError` if so many rows inside one another are more than any program has."""
    if levels > _MOST_LEVELS:
        raise InputError(
            f"refused: more than {_MOST_LEVELS:,} of its rows lie inside one another",
            hint="their times are damaged, or another program wrote it",
        )


def enclosing(start: Ints, end: Ints, opens: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return the innermost row that is open when each row starts, -1 if none, and how many are.

    Rows are sorted by start, and from the outside in; those that open end after they start.
    The first row that crosses another one ends after the row that is found for it; beyond that
    row, what is found is some row before, when which started one row less was open.
    """
    row = np.arange(len(start))
    ends = np.bincount(np.searchsorted(start, end[opens]), minlength=len(start) + 1)
    depth: Ints = np.cumsum(opens) - opens - np.cumsum(ends[:-1])
    # It grows, by one, behind a row that is around the next one. The same row is around all later
    # ones of that depth, until it grows to that depth once more.
    first = np.zeros(len(start), dtype=np.bool_)
    first[1:] = depth[1:] > depth[:-1]
    by_depth = ordered(depth)
    of_first = np.maximum.accumulate(np.where(first[by_depth], row, 0))
    above = np.empty_like(row)
    above[by_depth] = by_depth[of_first] - 1
    return np.where(depth > 0, above, -1), depth


def _pieces(start: Ints, end: Ints, opens: NDArray[np.bool_]) -> Ints:
    """Return a number that grows where nothing else is open when a row starts."""
    idle = np.ones(len(start), dtype=np.bool_)
    until = np.maximum.accumulate(np.where(opens, end, start))
    idle[1:] = start[1:] >= until[:-1]
    return np.cumsum(idle)


def _one_by_one(rows: Ints, *columns: NDArray[Any]) -> tuple[Ints, Ints, NDArray[np.bool_], int]:
    """Nest sorted `rows` with a stack, as is needed where some cross; see `_nested`.

    `columns` are piece, start, end, kind, and whether the row is asynchronous.
    """
    above = np.full(len(rows), -1, dtype=np.int64)
    closed, apart, cut = columns[2][rows], np.zeros(len(rows), dtype=np.bool_), 0
    stack: list[int] = []
    ends: list[int] = []
    current = None
    for at, (row, on, begin, until, what, single) in enumerate(_rows(rows, *columns)):
        if on != current:
            current = on
            stack.clear()
            ends.clear()
        while ends and ends[-1] <= begin:
            ends.pop()
            stack.pop()
        finish = until
        if stack:
            above[at] = stack[-1]
            if not single and finish > ends[-1]:
                if finish - ends[-1] > ROUNDING_NS:
                    apart[at] = True
                    continue
                cut += 1
                closed[at] = finish = ends[-1]
        if not single and what != POINT:
            stack.append(row)
            ends.append(finish)
            refuse_deep(len(stack))
    return above, closed, apart, cut


def _rows(order: Ints, *columns: NDArray[Any]) -> Iterator[tuple[int, ...]]:
    """Yield row number and columns in `order`; all of them as Python integers are 200 B a row."""
    for at in range(0, len(order), _CHUNK_ROWS):
        chunk = order[at : at + _CHUNK_ROWS]
        yield from zip(chunk.tolist(), *(column[chunk].tolist() for column in columns), strict=True)


def _nearest_span(parent: Ints, kind: NDArray[np.int8]) -> Ints:
    """Replace parents that are leaves by their own parents, until none is."""
    while (leaf := (parent >= 0) & (kind[parent] == LEAF)).any():
        parent = np.where(leaf, parent[parent], parent)
    return parent
