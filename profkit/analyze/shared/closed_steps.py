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
_MOST_RUNS = 64
_EVER = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Span:
    """What lies between two cuts: operators by number, what has none by its time."""

    ops: Sequence[Range]
    """Operators are in the order of time within a run, of which each thread may have one."""

    ns: Range

    def holds(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Tell which `rows` of any table are in it."""
        op, time = (rows[name].to_numpy(np.int64) for name in ("op", _time_of(rows.columns)))
        by_op = np.any([(op >= first) & (op < last) for first, last in self.ops], axis=0)
        return np.where(op >= 0, by_op, (time >= self.ns[0]) & (time < self.ns[1]))

    def until(self, other: "Span") -> "Span":
        """Return this span with all that follows it until the end of the `other`."""
        ops = zip(self.ops, other.ops, strict=True)
        return Span([(own[0], last[1]) for own, last in ops], (self.ns[0], other.ns[1]))

    def may_be_in(self, ops: Range, when: Range) -> bool:
        """Tell whether a group of rows may have some that are in it, see `ranges`."""
        by_op = any(ops[1] >= first and ops[0] < last for first, last in self.ops)
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
    cuts = _Cuts()
    for columns in tables[OPS](("op", "parent", "start_ns", "end_ns", "step")):
        back = np.flatnonzero(np.diff(columns[2]) < 0) + 1
        for first, last in pairwise([0, *back.tolist(), len(columns[0])]):
            if first < last and not cuts.add(*(column[first:last] for column in columns)):
                return []
    _leave_out_across(cuts, tables)
    return _apart(cuts)


def _apart(cuts: "_Cuts") -> list[Span]:
    """Return the spans between those `cuts` that have enough operators between them."""
    bounds = cuts.bounds
    edges, reached = [], sum(cuts.firsts)
    for at, total in enumerate(bounds.sum(axis=0).tolist()):
        if total >= reached + _LEAST_OPS:
            edges.append(at)
            reached = total
    times = [_EVER.min, *cuts.times[edges].tolist(), _EVER.max]
    runs = [
        [first, *own[edges].tolist(), last]
        for first, own, last in zip(
            [_EVER.min, *cuts.firsts[1:]], bounds, [*cuts.firsts[1:], _EVER.max], strict=True
        )
    ]
    between = zip(*(pairwise(run) for run in runs), strict=True)
    return [Span(ops, ns) for ops, ns in zip(between, pairwise(times), strict=True)]


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


class _Cuts:
    """Instants at which parts may begin: those of operators of the first run, as all come."""

    def __init__(self) -> None:
        """Know no operator so far."""
        self.times = np.empty(0, dtype=np.int64)
        self.firsts: list[int] = []
        """The first operator of each run, in which none starts before the one before it."""
        self._steps = self.times
        """The least step after each."""
        self._bounds: list[NDArray[np.int64]] = []
        """By run, the first operator after each; `_EVER.max` so far where none is known."""
        self._reach, self._highest = _EVER.min, -1
        self._last = (-1, _EVER.min)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The first operator after each cut in each run, shape (runs, cuts)."""
        ends = [*self.firsts[1:], self._last[0] + 1]
        own = [np.minimum(one, end) for one, end in zip(self._bounds, ends, strict=True)]
        return np.array(own).reshape(len(self.firsts), len(self.times))

    def add(
        self,
        op: NDArray[np.int64],
        parent: NDArray[np.int64],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        step: NDArray[np.int64],
    ) -> bool:
        """Add the next operators, in the order of time; tell whether there may be cuts."""
        if (np.diff(op, prepend=self._last[0]) <= 0).any():
            return False
        if not self.firsts or start[0] < self._last[1]:
            self.firsts.append(int(op[0]))
            self._bounds.append(np.full(len(self.times), _EVER.max))
        self._last = int(op[-1]), int(start[-1])
        if len(self.firsts) == 1:
            self._propose(start, end, step)
        own = self._bounds[-1]
        at = np.searchsorted(start, self.times)
        found = (own == _EVER.max) & (at < len(op))
        own[found] = op[at[found]]
        count = len(self.times)
        before = np.searchsorted(self.times, start, side="right")
        bad = _between(before, np.searchsorted(self.times, end), count)
        for sides, known in (
            (np.searchsorted(own, parent, side="right"), parent >= 0),
            (np.searchsorted(self._steps, step, side="right"), step >= 0),
        ):
            other = np.where(known, sides, before)
            bad |= _between(np.minimum(before, other), np.maximum(before, other), count)
        self.keep(~bad)
        return len(self.firsts) <= _MOST_RUNS and bool(len(self.firsts) == 1 or len(self.times))

    def _propose(
        self, start: NDArray[np.int64], end: NDArray[np.int64], step: NDArray[np.int64]
    ) -> None:
        """Add the starts of operators before which all others ended, and their steps as well."""
        reaches = np.maximum.accumulate(np.r_[self._reach, end])
        steps = np.maximum.accumulate(np.r_[self._highest, step])
        # What is outside of all steps may be on either side of a cut.
        is_free = (start > reaches[:-1]) & ((step > steps[:-1]) | (step < 0))
        self.times = np.concatenate((self.times, start[is_free]))
        self._steps = np.concatenate((self._steps, steps[:-1][is_free] + 1))
        more = np.full(int(is_free.sum()), _EVER.max)
        self._bounds = [np.concatenate((self._bounds[0], more))]
        self._reach, self._highest = int(reaches[-1]), int(steps[-1])

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Leave out all other cuts."""
        if not chosen.all():
            self.times, self._steps = self.times[chosen], self._steps[chosen]
            self._bounds = [own[chosen] for own in self._bounds]


def _between(first: NDArray[np.int64], until: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Tell which of `count` positions are from `first` to before `until` of any row."""
    across = first < until
    edges = np.bincount(first[across], minlength=count + 1)[: count + 1]
    edges = edges - np.bincount(until[across], minlength=count + 1)[: count + 1]
    return np.asarray(np.cumsum(edges)[:count] > 0)


def _leave_out_across(cuts: _Cuts, tables: Tables) -> None:
    """Leave out the cuts beyond which a call lasts that no operator made."""
    if _CALLS not in tables:
        return
    for op, start, end in tables[_CALLS](("op", "start_ns", "end_ns")):
        alone = op < 0
        first, until = (
            np.searchsorted(cuts.times, edge[alone], side="right") for edge in (start, end)
        )
        cuts.keep(~_between(first, until, len(cuts.times)))
