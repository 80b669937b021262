"""The distinct paths through a tree whose rows know the row above them, as arrays.

-1 stands for no row. Loops run over levels of the tree, never over rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_ROWS_AT_ONCE = 1 << 18
_SMALL = np.iinfo(np.int16).max

SEPARATOR = ";"
"""Between the names of a path."""


def joined(names: Iterable[str]) -> str:
    """Return `names` as one path; what separates them is a comma within a name."""
    return SEPARATOR.join(name.replace(SEPARATOR, ",") for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """The distinct paths through a tree: nodes that know the node above them."""

    node: NDArray[np.integer[Any]]
    """Node of each row; -1 for none."""
    above: Numbers
    """Node above each node; -1 for a root. It has a lower number."""
    name: Numbers
    """Name of each node, as a number."""

    def texts(self, wanted: Numbers, names: Sequence[str]) -> list[str]:
        """Return the path of each of the nodes `wanted`: its names from the root."""
        needed = np.zeros(len(self.above) + 1, dtype=np.bool_)
        level = wanted
        while len(level := level[(level >= 0) & ~needed[level]]):
            needed[level] = True
            level = self.above[level]
        texts = {-1: ""}
        for node in np.flatnonzero(needed[:-1]).tolist():
            around, own = texts[int(self.above[node])], names[self.name[node]]
            texts[node] = f"{around}{SEPARATOR}{own}" if around else own
        return [texts[node] for node in wanted.tolist()]


class PathBuilder:
    """The paths through all rows, and those through the rows that count, as rows come in portions.

    Both are found at once: the path through all rows determines the other one.
    """

    def __init__(self, names: int) -> None:
        """Make a tree whose names are numbers below `names`."""
        self._kinds = 2 * names
        self._nodes = _Nodes()

    def add(
        self,
        caller: Numbers,
        depth: NDArray[np.integer[Any]],
        name: Numbers,
        counted: NDArray[np.bool_],
        known: Numbers,
    ) -> Numbers:
        """Return the node of each row; see `paths`. The `depth` of a row is more than its caller's.

        A portion begins with rows that are known from an earlier one; `known` are their nodes.
        """
        node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
        node[: len(known)] = known
        kind = 2 * name + counted
        for level in _levels(depth):
            rows = level[level >= len(known)]
            keys = (node[caller[rows]] + 1) * self._kinds + kind[rows]
            distinct, which = np.unique(keys, return_inverse=True)
            nodes = list(map(self._nodes.__getitem__, distinct.tolist()))
            node[rows] = np.array(nodes, dtype=np.int64)[which]
        return node[:-1]

    def whole(self) -> tuple[Paths, Paths]:
        """Return what `paths` finds of all rows at once: all of them counted, and as they are.

        The rows of both are the nodes that `add` returned.
        """
        keys = np.fromiter(self._nodes, np.int64, len(self._nodes))
        above, kind = np.divmod(keys, self._kinds)
        name, counted = np.divmod(kind, 2)
        every = np.ones(len(keys), dtype=np.bool_)
        return paths(above - 1, name, every), paths(above - 1, name, counted == 1)


class _Nodes(dict[int, int]):
    """Numbers that keys get when they are first asked for."""

    def __missing__(self, key: int) -> int:
        number = self[key] = len(self)
        return number


def paths(caller: Numbers, name: NDArray[np.integer[Any]], counted: NDArray[np.bool_]) -> Paths:
    """Return the paths of rows through those that are `counted`; others are where their caller is.

    `name` is the number of each row's name.
    """
    names = int(name.max()) + 1 if len(name) else 1
    node = np.full(len(caller) + 1, -1, dtype=np.int32)  # the last is that of row -1
    above, own = [], []
    size = 0

    def keys(rows: Numbers) -> Numbers:
        return (node[caller[rows]].astype(np.int64) + 1) * names + name[rows]

    for rows in _levels(depths(caller)):
        new, others = rows[counted[rows]], rows[~counted[rows]]
        parts = np.array_split(new, 1 + len(new) // _ROWS_AT_ONCE)
        distinct = np.unique(np.concatenate([np.unique(keys(part)) for part in parts]))
        node[others] = node[caller[others]]
        for part in parts:
            node[part] = size + np.searchsorted(distinct, keys(part))
        above.append(distinct // names - 1)
        own.append(distinct % names)
        size += len(distinct)
    nothing = np.empty(0, dtype=np.int64)
    return Paths(
        node=node[:-1],
        above=np.concatenate([nothing, *above]),
        name=np.concatenate([nothing, *own]),
    )


def depths(caller: Numbers) -> NDArray[np.int32]:
    """Return 0 for rows without a caller, 1 for those that these call, and so on.

    Rows of a damaged table that call one another in a circle have any depth.
    """
    # Numbers of 64 bits take twice the memory, of which this needs several times that of `caller`.
    depth, jump = (caller >= 0).astype(np.int32), caller.astype(np.int32)
    for _ in range(len(caller).bit_length()):  # each round looks twice as far up
        if (jump < 0).all():
            break
        depth += np.where(jump >= 0, depth[jump], 0)
        jump = np.where(jump >= 0, jump[jump], -1)
    return depth


def _levels(depth: NDArray[np.integer[Any]]) -> Iterator[Numbers]:
    """Yield the rows of each depth, from the least on."""
    order = ordered(depth)
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def ordered(depths: NDArray[np.integer[Any]]) -> Numbers:
    """Return rows by depth, those of equal depth in their order."""
    # NumPy sorts numbers of 16 bits by radix, in a third of the time.
    small = depths.astype(np.int16) if depths.max(initial=0) <= _SMALL else depths
    return np.argsort(small, kind="stable")
