"""Rows that are found through other rows, and rows in order of time."""

from collections.abc import Callable

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.values import Ints

_FEW_ROWS = 1 << 14
"""Of so few to look upwards from all of them at once is the fastest."""


def nearest_with(holds: Callable[[Column], Column], rows: Column, parents: Column) -> Column:
    """Return for each of `rows` itself or its nearest ancestor of which `holds`; -1 if none.

    `parents` are those of the rows that it may hold of, and of no others.
    """
    if len(parents) <= _FEW_ROWS:
        return _nearest_to_all(holds, parents)[rows]
    found = rows.copy()
    climbing = np.flatnonzero(rows >= 0)
    at = rows[climbing]
    while len(at):
        on = ~holds(at)
        climbing, at = climbing[on], parents[at[on]]
        found[climbing] = at
        inside = at >= 0
        climbing, at = climbing[inside], at[inside]
    return found


def _nearest_to_all(holds: Callable[[Column], Column], parents: Column) -> Column:
    """Return the same for each row there is, and -1 for row -1."""
    every = np.arange(len(parents))
    found = np.append(np.where(holds(every), every, parents), -1)
    while not np.array_equal(above := found[found], found):  # each looks twice as far up
        found = above
    return found


def by_start(start: Ints, *others: Column) -> Ints:
    """Return rows in order of `start`, those of equal start in order of `others`, the first first.

    As ``np.lexsort``, which sorts all rows by all keys: few rows start at once, and most lie in
    order already.
    """
    order = np.argsort(start, kind="stable")
    begun = start[order]
    same = begun[1:] == begun[:-1]
    if same.any():
        tied = np.append(same, False) | np.append(False, same)
        rows = order[tied]
        order[tied] = rows[np.lexsort([keys[rows] for keys in (*reversed(others), start)])]
    return order


def at_or(values: Column, rows: Column, otherwise: int | Column = -1) -> Column:
    """Return ``values[row]`` for each row, and `otherwise` for row -1."""
    if not len(values):
        return np.broadcast_to(np.asarray(otherwise, dtype=np.int64), rows.shape)
    found: Column = np.where(rows >= 0, values[rows], otherwise)
    return found
