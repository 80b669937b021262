"""Communication that ends no later than the CPU launches what follows: without it a GPU is idle.

A GPU that communicates while the CPU has launched nothing else gains nothing from faster ranks or
links: it would wait for the CPU instead. So the work of the GPU is moved forward by the time of its
exposed communication, each kernel no further than to its launch. Launches move with the calls in
which the CPU waited for the GPU: these end earlier then.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

Column = NDArray[np.int64]

_MOSTLY = 0.5
_LEAST = 0.01
"""Of the time: less communication is not worth a look."""


def covered_by_launching(rank: RecordedRank, exposed: Intervals) -> dict[int, Intervals]:
    """Return what of the union `exposed` would be idle time without it, by launching thread.

    It is the last communication before each kernel that is launched too late to move as far.
    Nothing where it is less than half: then what is waited for limits more than launching does.
    """
    whole = intervals.total(exposed)
    if whole < _LEAST * intervals.total(intervals.union(rank.windows)):
        return {}
    kernels, least = _Kernels.of(rank, exposed), max(_MOSTLY * whole, 1)
    # No more than if launches stay where they are.
    if kernels.limits.max() < least:
        return {}
    lost = kernels.lost(_waits(rank), exposed)
    if lost[-1] < least:
        return {}
    found = _last_before(kernels, np.diff(lost, prepend=0))
    return {thread: _in_time(spans, exposed) for thread, spans in found.items()}


def covering_ns(rank: RecordedRank, work: Intervals) -> int:
    """Return how much of the union `work` of the GPU only covers that the CPU launches meanwhile.

    Without it the GPU would wait for launches as long.
    """
    return int(_Kernels.of(rank, work).lost(_waits(rank), work)[-1]) if len(work) else 0


@dataclass(frozen=True)
class _Kernels:
    """Kernels in the order in which they begin, as they are without some time before them."""

    start: Column
    before: Column
    """How much of that time is before each."""

    room: Column
    """How far each can move to its launch; as far as asked where that was not recorded."""

    thread: Column

    @classmethod
    def of(cls, rank: RecordedRank, without: Intervals) -> Self:
        start = rank.kernel_spans[:, 0]
        begun, thread = (rank.launched[name].to_numpy(np.int64) for name in ("start_ns", "tid"))
        before = intervals.covered_before(start, without)
        # A call that does not return before the copy is done, or the queue has room, begins it.
        room = np.where(begun < 0, before, np.maximum(start - begun, 0))
        order = np.argsort(start, kind="stable")
        return cls(*(one[order] for one in (start, before, room, thread)))

    @property
    def limits(self) -> Column:
        """How much of the time moves none of them, if launches stay where they are."""
        return self.before - self.room

    def lost(self, waits: Intervals, without: Intervals) -> Column:
        """Return how much of the time moves none of them, until each, as it is not launched."""
        limits = self.limits
        waits_before = np.searchsorted(waits[:, 1], self.start - self.room)
        cuts = np.searchsorted(self.start, waits[:, 1], side="right").tolist()
        before_end = intervals.covered_before(waits[:, 1], without).tolist()
        lengths = (waits[:, 1] - waits[:, 0]).tolist()
        # How far the CPU has moved after so many calls in which it waited.
        moved = np.zeros(len(waits) + 1, dtype=np.int64)
        lost = first = 0
        for number, (length, cut, before) in enumerate(
            zip(lengths, cuts, before_end, strict=True), start=1
        ):
            if cut > first:
                rows = slice(first, cut)
                lost = max(lost, int((limits[rows] - moved[waits_before[rows]]).max()))
                first = cut
            moved[number] = max(moved[number - 1], min(moved[number - 1] + length, before - lost))
        return np.maximum.accumulate(np.maximum(limits - moved[waits_before], 0))


def _waits(rank: RecordedRank) -> Intervals:
    """Return the calls in which a thread that launches was blocked, in the order of their ends."""
    calls = rank.call_spans[rank.blocked & np.isin(rank.call_threads, rank.launching)]
    return calls[np.argsort(calls[:, 1], kind="stable")]


def _last_before(kernels: _Kernels, lost: Column) -> dict[int, list[tuple[int, int]]]:
    """Return by thread what is `lost` at each kernel: the last before it that is not lost yet.

    Spans are those of an axis that has the time without which the kernels are, and no other.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    moving: list[tuple[int, int]] = []
    seen = 0
    for row in np.flatnonzero(lost):
        before, left = int(kernels.before[row]), int(lost[row])
        moving.append((seen, before))
        seen = before
        while left and moving:
            start, end = moving.pop()
            cut = max(start, end - left)
            left -= end - cut
            found.setdefault(int(kernels.thread[row]), []).append((cut, end))
            moving += [(start, cut)] if cut > start else []
    return found


def _in_time(stopped: list[tuple[int, int]], exposed: Intervals) -> Intervals:
    """Return spans of the axis that has `exposed` alone as such of time, a union."""
    ends = np.cumsum(exposed[:, 1] - exposed[:, 0])
    starts = np.r_[0, ends[:-1]]
    spans = intervals.union(np.array(stopped, dtype=np.int64))
    pieces = np.unique(np.concatenate((spans.ravel(), starts, ends)))
    cut = np.array([*pairwise(pieces.tolist())], dtype=np.int64)
    inside = cut[intervals.contains(spans, cut[:, 0])]
    later = (exposed[:, 0] - starts)[np.searchsorted(ends, inside[:, 0], side="right")]
    return intervals.union(inside + later[:, None])
