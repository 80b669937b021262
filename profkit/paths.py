"""The distinct paths through a tree whose rows know the row above them, as arrays.

-1 stands for no row. Loops run over levels of the tree, never over rows.
"""

from collections.abc import Iterator, Sequence
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
    order = np.argsort(depth, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
