"""The tree of operators as arrays: parents, and sums over children and subtrees.

A *row* is a position in the table `cpu_ops`; -1 stands for none. Loops run over levels of the
tree, never over rows.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.intervals import blocks
from profkit.analyze.shared.step_windows import positions_by_repeat

Rows = NDArray[np.int64]
"""Positions in `cpu_ops`, -1 for none."""


def positions(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> Rows:
    """Return for each of `wanted` its position in `known`, -1 where it is not there.

    Both are numbers of rows of one rank and repeat.
    """
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    found = _search(known, wanted)
    for rows in blocks(len(wanted)):
        found[rows][known[found[rows]] != wanted[rows]] = -1
    return found


def are_positions(numbers: NDArray[np.int64]) -> bool:
    """Tell whether the `numbers` of rows are 0, 1, 2, ..."""
    is_sorted = bool((numbers[1:] > numbers[:-1]).all())
    return is_sorted and (not len(numbers) or (numbers[0] == 0 and numbers[-1] == len(numbers) - 1))


def rows_of(cpu_ops: pd.DataFrame, table: pd.DataFrame, column: str = "op") -> Rows:
    """Return for each row of `table` the row of `cpu_ops` that `column` names, shape (len(table),).

    `column` holds an `op`, which counts anew in each rank and repeat.
    """
    if cpu_ops.empty:
        return np.full(len(table), -1, dtype=np.int64)
    sizes = [int(cpu_ops[name].max()) + 1 for name in ("repeat", "op")]
    known, wanted = _keys(cpu_ops, "op", sizes), _keys(table, column, sizes)
    found = _search(known, wanted)
    found[table[column].to_numpy() < 0] = -1
    for rows in blocks(len(wanted)):
        found[rows][known[found[rows]] != wanted[rows]] = -1
    return found


def _search(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> Rows:
    """Return for each of `wanted` its position in `known`, any position if it is not there."""
    last = len(known) - 1
    if not (known[1:] > known[:-1]).all():
        order = np.argsort(known, kind="stable")
        return np.asarray(order[np.minimum(np.searchsorted(known, wanted, sorter=order), last)])
    if int(known[last]) - int(known[0]) == last:
        # One rank, whose operators are numbered without a gap: their numbers are positions.
        at = wanted - known[0]
        return np.asarray(np.clip(at, 0, last, out=at))
    return np.asarray(np.minimum(np.searchsorted(known, wanted), last))


def _keys(table: pd.DataFrame, column: str, sizes: list[int]) -> NDArray[np.int64]:
    rank, repeat, op = (table[name].to_numpy() for name in ("rank", "repeat", column))
    # In place: each copy of the keys of all ranks counts.
    keys = rank * np.int64(sizes[0])
    keys += repeat
    keys *= sizes[1]
    keys += op
    # A number beyond the sizes would share its key with another row.
    keys[(repeat >= sizes[0]) | (op >= sizes[1])] = -1
    return keys


def nearest(rows: Rows, parent: Rows, skipped: NDArray[np.bool_]) -> Rows:
    """Climb from each of `rows` to the first row that is not `skipped`, itself or above it."""
    found = rows.copy()
    for block in blocks(len(found)):
        own = found[block]
        climbing = np.arange(len(own))
        while len(climbing := climbing[own[climbing] >= 0]):
            climbing = climbing[skipped[own[climbing]]]
            own[climbing] = parent[own[climbing]]
    return found


class NearestAbove:
    """The nearest call above each one that counts, as the rows of a table come in portions.

    A call comes after the one that made it: one that does not has no call above it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], NDArray[np.int32]] = {}

    def of(self, calls: pd.DataFrame, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of the `counted` call that is nearest above each row, -1 for none."""
        found = np.empty(len(calls), dtype=np.int64)
        for where, rows in positions_by_repeat(calls).items():
            call, caller = (calls[name].to_numpy()[rows] for name in ("call", "caller"))
            found[rows] = self._of_one(where, call, caller, counted[rows])
        return found

    def _of_one(
        self, where: tuple[int, int], call: Rows, caller: Rows, counted: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the same of rows of one rank and repeat."""
        known = self._known.get(where, np.full(1, -1, dtype=np.int32))
        more = 2 + max(int(call.max()), int(caller.max())) - len(known)
        known = np.pad(known, (0, max(more, 0)), constant_values=-1)
        parent = positions(call, caller)
        # Damaged tables have calls that call themselves.
        parent = np.where(parent < np.arange(len(call)), parent, -1)
        top = nearest(np.arange(len(call)), parent, ~counted & (parent >= 0))
        # The last entry stands for no caller.
        own = np.where(counted[top], call[top], known[caller[top]])
        known[call] = own
        self._known[where] = known
        return known[caller].astype(np.int64)


def sums(rows: Rows, values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return for each of `size` rows the sum of the `values` that name it in `rows`."""
    total = np.zeros(size, dtype=np.int64)
    for block in blocks(len(rows)):
        known = rows[block] >= 0
        np.add.at(total, rows[block][known], values[block][known])
    return total


def subtree_sums(rows: Rows, values: NDArray[np.int64], parent: Rows) -> NDArray[np.int64]:
    """Return for each row the sum of the `values` that name it, or a row below it, in `rows`."""
    total = np.zeros(len(parent), dtype=np.int64)
    while len(rows):
        total += sums(rows, values, len(parent))
        known = rows >= 0
        rows, values = parent[rows[known]], values[known]
    return total
