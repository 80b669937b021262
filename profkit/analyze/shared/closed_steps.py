"""Where the recording of a rank can be cut, so that all that belongs together is on one side.

No operator and no call lasts beyond a cut, no row refers to an operator across it, and no step is
on both sides of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

Groups = Mapping[str, tuple[pq.ParquetFile, Sequence[int]]]
"""Files of tables, and the groups of rows of one rank in each, by the table's name."""

NEEDED = ("op", "start_ns", "time_ns")
"""Columns that tell on which side of a cut a row is, if the table has them."""

_OPS, _CALLS = "cpu_ops", "runtime_calls"
_LEAST_OPS = 1 << 18
_EVER = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Span:
    """What lies between two cuts: operators by number, what has none by its time."""

    ops: tuple[int, int]
    ns: tuple[int, int]

    def holds(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Tell which `rows` of any table are in it."""
        op, time = (rows[name].to_numpy(np.int64) for name in ("op", _time_of(rows.columns)))
        by_op = (op >= self.ops[0]) & (op < self.ops[1])
        return np.where(op >= 0, by_op, (time >= self.ns[0]) & (time < self.ns[1]))

    def may_be_in(self, file: pq.ParquetFile, group: int) -> bool:
        """Tell whether a group of rows may have some that are in it."""
        (low, high), when = (
            _range(file, group, name) for name in ("op", _time_of(file.schema_arrow.names))
        )
        by_op = high >= self.ops[0] and low < self.ops[1]
        return by_op or (low < 0 and when[1] >= self.ns[0] and when[0] < self.ns[1])


def spans(tables: Groups) -> list[Span]:
    """Return the parts of a recording; none if it is small, of several ranks or cannot be cut."""
    files = [file for file, _ in tables.values()]
    if any("op" not in file.schema_arrow.names for file in files) or not _is_of_one(tables):
        return []
    rows = sum(tables[_OPS][0].metadata.row_group(group).num_rows for group in tables[_OPS][1])
    if rows < 2 * _LEAST_OPS:
        return []
    edges = [(_EVER.min, _EVER.min)]
    for op, time in _without_calls_across(_cuts(*tables[_OPS]), tables).tolist():
        if op >= max(edges[-1][0], 0) + _LEAST_OPS:
            edges.append((op, time))
    edges.append((_EVER.max, _EVER.max))
    return [Span((first[0], last[0]), (first[1], last[1])) for first, last in pairwise(edges)]


def _time_of(names: "Sequence[str] | pd.Index[str]") -> str:
    return "start_ns" if "start_ns" in names else "time_ns"


def _range(file: pq.ParquetFile, group: int, name: str) -> tuple[int, int]:
    """Return the least and the greatest number of a column in a group of rows."""
    at = file.schema_arrow.names.index(name)
    known = file.metadata.row_group(group).column(at).statistics
    if known is None or not known.has_min_max:
        return _EVER.min, _EVER.max
    return known.min, known.max


def _is_of_one(tables: Groups) -> bool:
    """Tell whether operators are there, and all rows are of one rank and repeat."""
    for name in ("rank", "repeat"):
        ranges = [_range(file, at, name) for file, groups in tables.values() for at in groups]
        if len({number for ends in ranges for number in ends}) != 1:
            return False
    return _OPS in tables


def _columns(
    file: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]
) -> Iterator[list[NDArray[np.int64]]]:
    for group in groups:
        part = file.read_row_group(group, list(names))
        yield [part[name].to_numpy().astype(np.int64) for name in names]


def _cuts(file: pq.ParquetFile, groups: Sequence[int]) -> NDArray[np.int64]:
    """Return the number and the start of the operators that a part may begin with."""
    cuts = np.empty((0, 3), dtype=np.int64)
    reach, highest, before = _EVER.min, -1, -1
    for op, parent, start, end, step in _columns(
        file, groups, ("op", "parent", "start_ns", "end_ns", "step")
    ):
        if (np.diff(op, prepend=before) <= 0).any():
            return cuts[:0, :2]
        reaches = np.maximum.accumulate(np.r_[reach, end])
        steps = np.maximum.accumulate(np.r_[highest, step])
        begins = np.flatnonzero((start > reaches[:-1]) & (step > steps[:-1]))
        cuts = np.concatenate((cuts, np.column_stack((op, start, step))[begins]))
        reach, highest, before = int(reaches[-1]), int(steps[-1]), int(op[-1])
        until = np.searchsorted(cuts[:, 0], op, side="right")
        after_parent = np.searchsorted(cuts[:, 0], parent, side="right")
        after_step = np.searchsorted(cuts[:, 2], step, side="right")
        bad = _between(np.where(parent >= 0, after_parent, until), until, len(cuts))
        bad |= _between(np.where(step >= 0, after_step, until), until, len(cuts))
        cuts = cuts[~bad]
    return cuts[:, :2]


def _between(first: NDArray[np.int64], until: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Tell which of `count` positions are from `first` to before `until` of any row."""
    across = first < until
    edges = np.bincount(first[across], minlength=count + 1)[: count + 1]
    edges = edges - np.bincount(until[across], minlength=count + 1)[: count + 1]
    return np.asarray(np.cumsum(edges)[:count] > 0)


def _without_calls_across(cuts: NDArray[np.int64], tables: Groups) -> NDArray[np.int64]:
    """Return the cuts beyond which no call lasts that no operator made."""
    if _CALLS not in tables:
        return cuts
    for op, start, end in _columns(*tables[_CALLS], ("op", "start_ns", "end_ns")):
        alone = op < 0
        first, until = (
            np.searchsorted(cuts[:, 1], edge[alone], side="right") for edge in (start, end)
        )
        cuts = cuts[~_between(first, until, len(cuts))]
    return cuts
