"""Who encloses whom on each thread, and the time that is left to each."""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.kineto.events import Ints

ROUNDING_NS = 2_000
"""Older traces round starts and durations to µs each, so a child may outlive its parent by this."""

_ASYNCHRONOUS = re.compile(r"(?:gloo|mpi|ucc):")

_CHUNK_ROWS = 1 << 16

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
    """Rows by thread, start, and from the outside in."""

    parent: Ints
    """Nearest span around the row; -1 if there is none."""

    end: Ints
    """End, cut where the row would outlive its parent by no more than `ROUNDING_NS`."""

    self_ns: Ints
    """Time not covered by rows inside; 0 for asynchronous rows."""

    cut: int
    """Number of rows whose end was cut."""

    crossing: int
    """Number of rows that outlive the row around them by more, so are asynchronous."""


def nested(  # noqa: PLR0913 - one column each
    *,
    thread: Ints,
    start: Ints,
    end: Ints,
    kind: NDArray[np.int8],
    created: Ints,
    asynchronous: NDArray[np.bool_],
) -> Tree:
    """Nest rows by time on each thread; among equal times `created` tells the outer from the inner.

    A row that ends after the row around it does not nest. Up to `ROUNDING_NS` that is rounding and
    the end is cut; beyond, the row is asynchronous: it keeps its times and its parent, has no self
    time and encloses nothing.
    """
    order = np.lexsort((created, kind, -end, start, thread))
    closed, apart = end.copy(), asynchronous.copy()
    parents, covered = array("q", [-1]) * len(order), array("q", [0]) * len(order)
    cut = crossing = 0
    rows: list[int] = []
    ends: list[int] = []
    current = None
    for row, on, begin, until, what, alone in _rows(order, thread, start, end, kind, asynchronous):
        if on != current:
            current = on
            rows.clear()
            ends.clear()
        while ends and ends[-1] <= begin:
            ends.pop()
            rows.pop()
        finish = until
        if rows:
            parents[row] = top = rows[-1]
            if not alone:
                if finish - ends[-1] > ROUNDING_NS:
                    crossing += 1
                    apart[row] = True
                    continue
                if finish > ends[-1]:
                    cut += 1
                    closed[row] = finish = ends[-1]
                covered[top] += finish - begin
        if not alone and what != POINT:
            rows.append(row)
            ends.append(finish)
    spare = closed - start - np.array(covered, dtype=np.int64)
    return Tree(
        order=order,
        parent=_nearest_span(np.array(parents, dtype=np.int64), kind),
        end=closed,
        self_ns=np.where(apart, 0, spare),
        cut=cut,
        crossing=crossing,
    )


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
