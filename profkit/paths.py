"""The distinct paths through a tree whose rows know the row above them, as arrays.

-1 stands for no row. Loops run over levels of the tree, never over rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_SMALL = np.iinfo(np.int16).max

SEPARATOR = ";"
"""Between the names of a path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """The distinct paths through a tree: nodes that know the node above them."""

    node: Numbers
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


class Growing:
    """The paths through all rows, and those through the rows that count, as rows come in portions.

    Both are found at once: the path through all rows tells the other one.
    """

    def __init__(self, names: int) -> None:
        """Make a tree whose names are numbers below `names`."""
        self._kinds = 2 * names
        self._nodes = _Nodes()

    def add(
        self, caller: Numbers, name: Numbers, counted: NDArray[np.bool_], known: Numbers
    ) -> Numbers:
        """Return the node of each row; see `paths`.

        A portion begins with rows that are known from an earlier one; `known` are their nodes.
        """
        node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
        node[: len(known)] = known
        kind = 2 * name + counted
        for every in _levels(caller):
            rows = every[every >= len(known)]
            keys = (node[caller[rows]] + 1) * self._kinds + kind[rows]
            distinct, which = np.unique(keys, return_inverse=True)
            nodes = list(map(self._nodes.__getitem__, distinct.tolist()))
            node[rows] = np.array(nodes, dtype=np.int64)[which]
        return node[:-1]

    def whole(self) -> tuple[Paths, Paths]:
        """Return what `paths` finds of all rows at once: all of them counted, and as they are.

        The rows of both are the nodes that `add` returned.
        """
        every, chosen = _Numbered(len(self._nodes)), _Numbered(len(self._nodes))
        for level in self._by_level():
            every.add([(every.at(above), name, node) for node, above, name, _ in level])
            chosen.add([(chosen.at(above), name, node) for node, above, name, own in level if own])
            chosen.skip([(chosen.at(above), node) for node, above, _, own in level if not own])
        return every.paths(), chosen.paths()

    def _by_level(self) -> Iterator[list[tuple[int, int, int, int]]]:
        """Yield node, node above, name and whether it counts of each node, level by level."""
        level = [-1] * len(self._nodes)
        found: list[list[tuple[int, int, int, int]]] = []
        for key, node in self._nodes.items():  # in the order in which they came: from above
            above, kind = divmod(key, self._kinds)
            level[node] = level[above - 1] + 1 if above else 0
            if level[node] == len(found):
                found.append([])
            found[level[node]].append((node, above - 1, kind // 2, kind % 2))
        yield from found


class _Nodes(dict[int, int]):
    """Numbers that keys get when they are first asked for."""

    def __missing__(self, key: int) -> int:
        number = self[key] = len(self)
        return number


class _Numbered:
    """Paths while their nodes get numbers, in the order in which `paths` gives them."""

    def __init__(self, rows: int) -> None:
        self._node = np.full(rows + 1, -1, dtype=np.int64)  # the last is that of row -1
        self._distinct: list[tuple[int, int]] = []

    def at(self, row: int) -> int:
        """Return the node of a row."""
        return int(self._node[row])

    def add(self, level: list[tuple[int, int, int]]) -> None:
        """Give numbers to the nodes of a level: node above, name and row of each."""
        base = len(self._distinct)
        self._distinct += sorted({(above, name) for above, name, _ in level})
        numbers = {pair: base + at for at, pair in enumerate(self._distinct[base:])}
        for above, name, row in level:
            self._node[row] = numbers[above, name]

    def skip(self, level: list[tuple[int, int]]) -> None:
        """Leave rows where their caller is: node above and row of each."""
        for above, row in level:
            self._node[row] = above

    def paths(self) -> Paths:
        """Return the paths."""
        pairs = np.array(self._distinct, dtype=np.int64).reshape(-1, 2)
        return Paths(node=self._node[:-1], above=pairs[:, 0], name=pairs[:, 1])


def paths(caller: Numbers, name: Numbers, counted: NDArray[np.bool_]) -> Paths:
    """Return the paths of rows through those that are `counted`; others are where their caller is.

    `name` is the number of each row's name.
    """
    names = int(name.max()) + 1 if len(name) else 1
    node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
    above, own = [], []
    size = 0
    for rows in _levels(caller):
        around = node[caller[rows]]
        new = counted[rows]
        distinct, which = np.unique(
            (around[new] + 1) * names + name[rows[new]], return_inverse=True
        )
        node[rows] = around
        node[rows[new]] = size + which
        above.append(distinct // names - 1)
        own.append(distinct % names)
        size += len(distinct)
    nothing = np.empty(0, dtype=np.int64)
    return Paths(
        node=node[:-1],
        above=np.concatenate([nothing, *above]),
        name=np.concatenate([nothing, *own]),
    )


def _levels(caller: Numbers) -> Iterator[Numbers]:
    """Yield the rows without a caller, then those that these call, and so on."""
    depth = (caller >= 0).astype(np.int64)
    jump = caller
    while (jump >= 0).any():  # each round looks twice as far up
        depth += np.where(jump >= 0, depth[jump], 0)
        jump = np.where(jump >= 0, jump[jump], -1)
    order = ordered(depth)
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def ordered(depths: Numbers) -> Numbers:
    """Return rows by depth, those of equal depth in their order."""
    # NumPy sorts numbers of 16 bits by radix, in a third of the time.
    small = depths.astype(np.int16) if depths.max(initial=0) <= _SMALL else depths
    return np.argsort(small, kind="stable")
