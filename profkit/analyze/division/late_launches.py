"""Communication that ends no later than the CPU launches what follows: without it a GPU is idle.

A GPU that communicates while the CPU has launched nothing else gains nothing from faster ranks or
links: it would wait for the CPU instead. So the work of the GPU is moved forward by the time of its
exposed communication, each kernel no further than to its launch. Launches move with the calls in
which the CPU waited for the GPU: these end earlier then.
"""

from dataclasses import dataclass, field
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
    waits = _waits(rank)
    if kernels.stopped(waits, exposed) < least:
        return {}
    before_end = intervals.covered_before(waits[:, 1], exposed).tolist()
    calls = [
        (end, True, before, end - start, 0, -1)
        for (start, end), before in zip(waits.tolist(), before_end, strict=True)
    ]
    moved = _Moved()
    for event in sorted([*kernels.limiting(waits[:, 1]), *calls]):
        moved.by(*event)
    return {thread: _in_time(spans, exposed) for thread, spans in moved.stopped.items()}


def covering_ns(rank: RecordedRank, work: Intervals) -> int:
    """Return how much of the union `work` of the GPU only covers that the CPU launches meanwhile.

    Without it the GPU would wait for launches as long.
    """
    return _Kernels.of(rank, work).stopped(_waits(rank), work) if len(work) else 0


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

    def stopped(self, waits: Intervals, without: Intervals) -> int:
        """Return how much of the time moves none of them, as the last ones are not launched."""
        limits = self.limits
        waits_before = np.searchsorted(waits[:, 1], self.start - self.room)
        cuts = np.searchsorted(self.start, waits[:, 1], side="right").tolist()
        before_end = intervals.covered_before(waits[:, 1], without).tolist()
        moved = np.zeros(len(waits) + 1, dtype=np.int64)
        lost = first = 0
        for number, (length, cut, before) in enumerate(
            zip((waits[:, 1] - waits[:, 0]).tolist(), cuts, before_end, strict=True), start=1
        ):
            if cut > first:
                rows = slice(first, cut)
                lost = max(lost, int((limits[rows] - moved[waits_before[rows]]).max()))
                first = cut
            moved[number] = max(moved[number - 1], min(moved[number - 1] + length, before - lost))
        rest = limits[first:] - moved[waits_before[first:]]
        return max(lost, int(rest.max(initial=0)))

    def limiting(self, ends_of_waits: Column) -> list[tuple[int, bool, int, int, int, int]]:
        """Return when those begin that limit how far work moves, and as `_Moved.by` says."""
        waits = np.searchsorted(ends_of_waits, self.start - self.room)
        # Of kernels that nothing tells apart the one that can move least limits the others.
        apart = np.searchsorted(ends_of_waits, self.start)
        alike = np.column_stack((self.before, waits, apart, self.thread))
        first = np.flatnonzero(np.r_[True, (alike[1:] != alike[:-1]).any(axis=1)])
        least = np.minimum.reduceat(self.room, first)
        known = (one[first] for one in (self.start, self.before))
        columns = (*known, least, waits[first], self.thread[first])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [(at, False, *rest) for at, *rest in rows]


def _waits(rank: RecordedRank) -> Intervals:
    """Return the calls in which a thread that launches was blocked, in the order of their ends."""
    calls = rank.call_spans[rank.blocked & np.isin(rank.call_threads, rank.launching)]
    return calls[np.argsort(calls[:, 1], kind="stable")]


@dataclass
class _Moved:
    """How far the work of a GPU, and the CPU, move forward without communication so far."""

    stopped: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """What does not move others, on an axis of exposed communication alone, by thread."""

    _free: list[tuple[int, int]] = field(default_factory=list)
    """What does, on the same axis."""

    _lost: int = 0
    _seen: int = 0
    _calls: list[int] = field(default_factory=lambda: [0])
    """How far the CPU has moved after so many calls in which it waited."""

    def by(self, _: int, is_call: bool, before: int, room: int, calls: int, thread: int) -> None:
        """Go on to a kernel or to the end of a call, with so much exposed communication `before`.

        A kernel has `room` to its launch, which `calls` came before; a call took that long.
        """
        moves = before - self._lost
        if is_call:
            self._calls.append(max(self._calls[-1], min(self._calls[-1] + room, moves)))
            return
        if before > self._seen:
            self._free.append((self._seen, before))
            self._seen = before
        too_far = moves - room - self._calls[calls]
        self._lost += max(too_far, 0)
        while too_far > 0 and self._free:
            start, end = self._free.pop()
            stopped = min(too_far, end - start)
            too_far -= stopped
            self.stopped.setdefault(thread, []).append((end - stopped, end))
            if end - stopped > start:
                self._free.append((start, end - stopped))


def _in_time(stopped: list[tuple[int, int]], exposed: Intervals) -> Intervals:
    """Return spans of the axis of `exposed` alone as such of time, a union."""
    ends = np.cumsum(exposed[:, 1] - exposed[:, 0])
    starts = np.r_[0, ends[:-1]]
    spans = intervals.union(np.array(stopped, dtype=np.int64))
    pieces = np.unique(np.concatenate((spans.ravel(), starts, ends)))
    cut = np.array([*pairwise(pieces.tolist())], dtype=np.int64)
    inside = cut[intervals.contains(spans, cut[:, 0])]
    later = (exposed[:, 0] - starts)[np.searchsorted(ends, inside[:, 0], side="right")]
    return intervals.union(inside + later[:, None])
