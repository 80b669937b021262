"""Where the recording of a rank can be cut, so that all that belongs together is on one side.

No operator and no call lasts beyond a cut, no row refers to an operator across it, and no step is
on both sides of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

Range = tuple[int, int]
Numbers = Iterator[list[NDArray[np.int64]]]
Tables = Mapping[str, Callable[[Sequence[str]], Numbers]]
"""By the name of a table what reads some columns of the rows of one rank, a portion at a time."""

NEEDED = ("op", "start_ns", "time_ns")
"""Columns that tell on which side of a cut a row is, if the table has them."""

OPS = "cpu_ops"
"""The table without which nothing can be cut."""

_CALLS = "runtime_calls"
_LEAST_OPS = 1 << 18
_EVER = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Span:
    """What lies between two cuts: operators by number, what has none by its time."""

    ops: Range
    ns: Range

    def holds(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Tell which `rows` of any table are in it."""
        op, time = (rows[name].to_numpy(np.int64) for name in ("op", _time_of(rows.columns)))
        by_op = (op >= self.ops[0]) & (op < self.ops[1])
        return np.where(op >= 0, by_op, (time >= self.ns[0]) & (time < self.ns[1]))

    def may_be_in(self, ops: Range, when: Range) -> bool:
        """Tell whether a group of rows may have some that are in it, see `ranges`."""
        by_op = ops[1] >= self.ops[0] and ops[0] < self.ops[1]
        return by_op or (ops[0] < 0 and when[1] >= self.ns[0] and when[0] < self.ns[1])


def ranges(file: pq.ParquetFile) -> list[tuple[Range, Range]]:
    """Return the least and the greatest operator and time of each group of rows of a table."""
    names = file.schema_arrow.names
    at = [names.index(name) for name in ("op", _time_of(names))]
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    return [(_range(group.column(at[0])), _range(group.column(at[1]))) for group in groups]


def may_cut(rows: int) -> bool:
    """Tell whether so many operators of a rank are worth looking for a cut."""
    return rows >= 2 * _LEAST_OPS


def spans(tables: Tables) -> list[Span]:
    """Return the parts of the recording of one rank; none if it cannot be cut."""
    if not _is_of_one_repeat(tables):
        return []
    edges = [(_EVER.min, _EVER.min)]
    for op, time in _without_calls_across(_cuts(tables), tables).tolist():
        if op >= max(edges[-1][0], 0) + _LEAST_OPS:
            edges.append((op, time))
    edges.append((_EVER.max, _EVER.max))
    return [Span((first[0], last[0]), (first[1], last[1])) for first, last in pairwise(edges)]


def _time_of(names: "Sequence[str] | pd.Index[str]") -> str:
    return "start_ns" if "start_ns" in names else "time_ns"


def _range(column: pq.ColumnChunkMetaData) -> Range:
    known = column.statistics
    if known is None or not known.has_min_max:
        return _EVER.min, _EVER.max
    return known.min, known.max


def _is_of_one_repeat(tables: Tables) -> bool:
    repeats: set[int] = set()
    for read in tables.values():
        for [repeat] in read(["repeat"]):
            repeats.update({*repeat[:1].tolist(), *repeat[1:][np.diff(repeat) != 0].tolist()})
    return len(repeats) == 1


def _cuts(tables: Tables) -> NDArray[np.int64]:
    """Return the number and the start of the operators that a part may begin with."""
    cuts = np.empty((0, 3), dtype=np.int64)
    reach, highest, before = _EVER.min, -1, -1
    for op, parent, start, end, step in tables[OPS](("op", "parent", "start_ns", "end_ns", "step")):
        if (np.diff(op, prepend=before) <= 0).any():
            return cuts[:0, :2]
        reaches = np.maximum.accumulate(np.r_[reach, end])
        steps = np.maximum.accumulate(np.r_[highest, step])
        # What is outside of all steps may be on either side of a cut.
        is_free = (start > reaches[:-1]) & ((step > steps[:-1]) | (step < 0))
        begins = np.flatnonzero(is_free)
        cuts = np.concatenate((cuts, np.column_stack((op, start, steps[:-1] + 1))[begins]))
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


def _without_calls_across(cuts: NDArray[np.int64], tables: Tables) -> NDArray[np.int64]:
    """Return the cuts beyond which no call lasts that no operator made."""
    if _CALLS not in tables:
        return cuts
    for op, start, end in tables[_CALLS](("op", "start_ns", "end_ns")):
        alone = op < 0
        first, until = (
            np.searchsorted(cuts[:, 1], edge[alone], side="right") for edge in (start, end)
        )
        cuts = cuts[~_between(first, until, len(cuts))]
    return cuts
