"""Rows that are found through other rows, and rows in order of time."""

from collections.abc import Callable

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.values import Ints


def nearest_with(holds: Callable[[Column], Column], rows: Column, parents: Column) -> Column:
    """Return for each of `rows` itself or its nearest ancestor of which `holds`; -1 if none."""
    found = rows.copy()
    climbing = np.arange(len(found))
    while len(climbing := climbing[found[climbing] >= 0]):
        climbing = climbing[~holds(found[climbing])]
        found[climbing] = parents[found[climbing]]
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
