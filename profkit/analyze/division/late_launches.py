"""Communication that ends no later than the CPU launches what follows: without it a GPU is idle.

A GPU that communicates while the CPU has launched nothing else gains nothing from faster ranks or
links: it would wait for the CPU instead. So the work of the GPU is moved forward by the time of its
exposed communication, each kernel no further than to its launch. Launches move with the calls in
which the CPU waited for the GPU: these end earlier then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

_MOSTLY = 0.5


def covered_by_launching(rank: RecordedRank, exposed: Intervals) -> dict[int, Intervals]:
    """Return what of the union `exposed` would be idle time without it, by launching thread.

    It is the last communication before each kernel that is launched too late to move as far.
    Nothing where it is less than half: then what is waited for limits more than launching does.
    """
    if not len(exposed):
        return {}
    moved = _Moved()
    for event in sorted(_events(rank, exposed)):
        moved.by(*event)
    found = {thread: _in_time(spans, exposed) for thread, spans in moved.stopped.items()}
    covered = sum(map(intervals.total, found.values()))
    return found if covered >= _MOSTLY * intervals.total(exposed) else {}


def _events(
    rank: RecordedRank, exposed: Intervals
) -> Iterator[tuple[int, bool, int, int, int, int]]:
    """Yield what limits how far work moves: when, whether a call, and as `_Moved.by` says."""
    calls = _waits(rank)
    launch = rank.launched
    known = (launch["start_ns"] >= 0).to_numpy()
    order = np.argsort(rank.kernel_spans[known, 0], kind="stable")
    start = rank.kernel_spans[known, 0][order]
    # A call that does not return before the copy is done, or the queue has room, begins it.
    begun, thread = (launch[name].to_numpy(np.int64)[known][order] for name in ("start_ns", "tid"))
    begun = np.minimum(begun, start)
    exposed_before = intervals.covered_before(start, exposed)
    waits_before = np.searchsorted(calls[:, 1], begun)
    # Of kernels that nothing tells apart the one that can move least limits the others.
    alike = np.column_stack(
        (exposed_before, waits_before, np.searchsorted(calls[:, 1], start), thread)
    )
    first = np.flatnonzero(np.r_[True, (alike[1:] != alike[:-1]).any(axis=1)][: len(alike)])
    if len(first):
        room = np.minimum.reduceat(start - begun, first)
        columns = (start[first], exposed_before[first], room, waits_before[first], thread[first])
        for at, before, free, waits, of in zip(*(one.tolist() for one in columns), strict=True):
            yield at, False, before, free, waits, of
    before_end = intervals.covered_before(calls[:, 1], exposed)
    for (start_ns, end_ns), before in zip(calls.tolist(), before_end.tolist(), strict=True):
        yield end_ns, True, before, end_ns - start_ns, 0, -1


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
