"""The distinct paths through a tree whose rows know the row above them, as arrays.

-1 stands for no row. Loops run over levels of the tree, never over rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

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
        needed[wanted] = True
        level = np.unique(wanted)
        while len(level := level[level >= 0]):
            needed[level] = True
            level = np.unique(self.above[level])
        texts = {-1: ""}
        for node in np.flatnonzero(needed[:-1]).tolist():
            around, own = texts[int(self.above[node])], names[self.name[node]]
            texts[node] = f"{around}{SEPARATOR}{own}" if around else own
        return [texts[node] for node in wanted.tolist()]


class Growing:
    """The same, where rows come in portions; a portion begins with rows that are known already."""

    def __init__(self, names: int) -> None:
        """Make a tree whose names are numbers below `names`."""
        self._names = names
        self._nodes: dict[tuple[int, int, int], int] = {}

    def add(
        self,
        by_level: Iterable[Numbers],
        caller: Numbers,
        name: Numbers,
        counted: NDArray[np.bool_],
        known: Numbers,
    ) -> Numbers:
        """Return the node of each row, for now, where `known` are those of the first rows.

        `by_level` are all rows by the number of rows above them; see `paths` for the others.
        """
        node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
        node[: len(known)] = known
        for level, every in enumerate(by_level):
            rows = every[every >= len(known)]
            around = node[caller[rows]]
            new = counted[rows]
            keys = (around[new] + 1) * self._names + name[rows[new]]
            distinct, which = np.unique(keys, return_inverse=True)
            nodes = [self._node(level, *divmod(key, self._names)) for key in distinct.tolist()]
            node[rows] = around
            node[rows[new]] = np.array(nodes, dtype=np.int64)[which]
        return node[:-1]

    def _node(self, level: int, above: int, name: int) -> int:
        return self._nodes.setdefault((level, above - 1, name), len(self._nodes))

    def whole(self) -> Paths:
        """Return the paths as `paths` of all rows at once does; its rows are the nodes so far."""
        of_level: dict[int, list[tuple[int, int, int]]] = {}
        node = np.full(len(self._nodes) + 1, -1, dtype=np.int64)
        for number, (level, above, name) in enumerate(self._nodes):
            of_level.setdefault(level, []).append((above, name, number))
        distinct: list[tuple[int, int]] = []
        for level in sorted(of_level):
            final = [(int(node[above]), name, number) for above, name, number in of_level[level]]
            for above, name, number in sorted(final):
                node[number] = len(distinct)
                distinct.append((above, name))
        pairs = np.array(distinct, dtype=np.int64).reshape(-1, 2)
        return Paths(node=node[:-1], above=pairs[:, 0], name=pairs[:, 1])


def paths(caller: Numbers, name: Numbers, counted: NDArray[np.bool_]) -> Paths:
    """Return the paths of rows through those that are `counted`; others are where their caller is.

    `name` is the number of each row's name.
    """
    names = int(name.max()) + 1 if len(name) else 1
    node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
    above, own = [], []
    size = 0
    for rows in levels(caller):
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


def levels(caller: Numbers) -> Iterator[Numbers]:
    """Yield the rows without a caller, then those that these call, and so on."""
    depth = (caller >= 0).astype(np.int64)
    jump = caller
    while (jump >= 0).any():  # each round looks twice as far up
        depth += np.where(jump >= 0, depth[jump], 0)
        jump = np.where(jump >= 0, jump[jump], -1)
    order = np.argsort(depth, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
