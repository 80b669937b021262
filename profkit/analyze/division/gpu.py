"""The step of a rank with a GPU: computing, exposed communication and copies, and idle by cause."""

import numpy as np
from numpy.typing import NDArray

from profkit.analyze._gaps import Gaps, gaps, with_edges
from profkit.analyze.division import cpu_threads
from profkit.analyze.division.communicated import connecting, on_gpu
from profkit.analyze.division.copies import MIGRATIONS, PREFETCHED
from profkit.analyze.division.late_launches import covered_by_launching
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.blocking_calls import waits_for_gpu
from profkit.analyze.shared.glob_match import matching, texts
from profkit.analyze.shared.intervals import Intervals

COMPUTING, IDLE = "gpu_computing", "gpu_idle"
EXPOSED = "exposed_communication"
IN_GRAPH = "in_graph"
"""Idle time of a GPU that works on a CUDA graph, of which not all kernels were recorded."""
_LAUNCH_NS = 20_000
_FAULT_NS = 100_000
"""The GPU and the driver take 20 to 50 us from one fault of a page to the next."""
_HOLE_NS = 100_000
_MOST_HOLES = 0.1


def divide(rank: RecordedRank) -> Partition:
    """Divide the periods of a rank that recorded kernels."""
    time = Partition(rank.windows)
    spans, kind = rank.kernel_spans, texts(rank.kernels["kind"])
    time.take(COMPUTING, spans[kind == "compute"])
    _divide_communication(rank, time, on_gpu(rank))
    for name, rows in _copies(rank).items():
        is_by_fault = name.startswith(MIGRATIONS) and not name.startswith(PREFETCHED)
        moved = _without_faults(spans[rows]) if is_by_fault else spans[rows]
        time.take(f"exposed_copies.{name}", moved)
    time.take("exposed_sets", spans[kind == "set"])
    _divide_idle(rank, time)
    return time


def _divide_communication(rank: RecordedRank, time: Partition, spans: Intervals) -> None:
    starting = intervals.intersection(spans, connecting(rank))
    time.take(f"{EXPOSED}.{cpu_threads.START_UP}", starting)
    exposed = intervals.intersection(time.left, spans)
    if covered := covered_by_launching(rank, exposed):
        cpu_threads.divide(rank, time, IDLE, covered)
    if len(rank.collectives):
        waiting = intervals.intersection(spans, rank.waiting_for_ranks)
        time.take(f"{EXPOSED}.waiting", waiting)
        time.take(f"{EXPOSED}.transfer", spans)
    else:
        time.take(f"{EXPOSED}.waiting_or_transfer", spans)


def _copies(rank: RecordedRank) -> dict[str, NDArray[np.bool_]]:
    names = rank.copy_names
    return {str(name): names == name for name in dict.fromkeys(names) if name}


def _without_faults(spans: Intervals) -> Intervals:
    """Return migrations that follow one another as one: between them the next fault is handled."""
    spans = intervals.union(spans)
    follows = spans[1:, 0] - spans[:-1, 1] <= _FAULT_NS
    begins, ends = (np.flatnonzero(np.r_[edge]) for edge in ((True, ~follows), (~follows, True)))
    return np.column_stack((spans[begins, 0], spans[ends, 1]))


def _divide_idle(rank: RecordedRank, time: Partition) -> None:
    """Divide what is left, where no kernel runs, by what the thread did that launches next."""
    if not len(rank.windows):
        return
    rank.tidy()
    owned, queued = _owned(rank, time)
    rank.tidy()
    _take_around_work(rank, time)
    cpu_threads.divide(rank, time, IDLE, owned)
    time.take(f"{IDLE}.{IN_GRAPH}", queued[_are_in_graphs(rank, queued)])
    time.take(f"{IDLE}.not_started", queued)
    time.take(f"{IDLE}.{cpu_threads.NOT_RECORDED}", time.left)


def _take_around_work(rank: RecordedRank, time: Partition) -> None:
    """Take what passes before the first work of the GPU and after the last as one-off start-up.

    Where a program was recorded from its beginning to its end, as by nsys, without any step or
    operator: it imports, loads, connects to other ranks, and ends.
    """
    if (rank.periods["step"] >= 0).any() or rank.works.any() or not rank.sees_cpu:
        return
    first, last = rank.kernel_spans[:, 0].min(), rank.kernel_spans[:, 1].max()
    begin, end = rank.windows[:, 0].min(), rank.windows[:, 1].max()
    around = np.array([[begin, first], [last, end]], dtype=np.int64)
    around = intervals.intersection(time.left, around[around[:, 0] < around[:, 1]])
    of_any = np.ones(len(rank.calls), dtype=np.bool_)
    cpu_threads.take_blocked(rank, time, f"{IDLE}.", of_any, around)
    time.take(f"{IDLE}.{cpu_threads.AROUND_WORK}", around)


def _owned(rank: RecordedRank, time: Partition) -> tuple[dict[int, Intervals], Intervals]:
    """Return when each thread kept the GPU idle, and when what was launched did not start.

    What the call has that waited for the GPU is taken.
    """
    found = _gaps(rank)
    launch = np.append(rank.launched["start_ns"].to_numpy(np.int64), -1)[found.after]
    ready = np.append(rank.launched["end_ns"].to_numpy(np.int64), -1)[found.after]
    thread = np.append(rank.launched["tid"].to_numpy(np.int64), -1)[found.after]
    start, end = found.spans[:, 0], found.spans[:, 1]
    known = launch >= 0
    # What was launched before the GPU became idle waits in a queue, or for another stream.
    in_time = known & (launch <= start)
    until = np.where(known, np.clip(np.maximum(ready, launch + _LAUNCH_NS), start, end), end)
    blocked = np.append(rank.blocked, False)[
        np.append(rank.launched["call"].to_numpy(np.int64), -1)[found.after]
    ]
    # But a call that still holds the CPU, as a pageable copy does, is what the GPU waits for.
    until[in_time] = np.where(blocked, np.clip(ready, start, end), start)[in_time]
    late = np.column_stack((start, until))
    queued = intervals.union(np.column_stack((until, end)))
    owner = np.where(known, thread, rank.main)
    owned = {
        tid: intervals.intersection(time.left, intervals.union(late[owner == tid]))
        for tid in dict.fromkeys([*rank.launching, -1])
        if (owner == tid).any()
    }
    _give_to_synchronisation(rank, time, found, owner, late)
    return owned, queued


def _are_in_graphs(rank: RecordedRank, queued: Intervals) -> NDArray[np.bool_]:
    """Tell which spans without a kernel are those of kernels of a CUDA graph that are missing.

    They lie between two kernels of one launch, and are far longer than the GPU takes from one to
    the next. Where there are many of these, the first kernel of a graph may be missing too.
    """
    order = np.argsort(rank.kernel_spans[:, 0], kind="stable")
    spans = rank.kernel_spans[order]
    launch = rank.kernels["correlation"].to_numpy(np.int64)[order]
    is_graph = (_are_of_graphs(rank) & (rank.kernels["correlation"] > 0).to_numpy())[order]
    after = np.searchsorted(spans[:, 0], queued[:, 1]).clip(max=len(order) - 1)
    is_hole = is_graph[after] & (launch[(after - 1).clip(min=0)] == launch[after])
    is_hole &= queued[:, 1] - queued[:, 0] >= _HOLE_NS
    holes = intervals.total(queued[is_hole])
    working = intervals.total(intervals.union(spans[is_graph]))
    return np.asarray(is_hole | (is_graph[after] & (holes > _MOST_HOLES * (holes + working))))


def _are_of_graphs(rank: RecordedRank) -> NDArray[np.bool_]:
    """Tell which kernels were launched as a part of a CUDA graph."""
    launches_graph = np.append(matching(rank.calls["name"], ("*GraphLaunch*",)), False)
    by_call = launches_graph[rank.launched["call"].to_numpy(np.int64)]
    return np.asarray((rank.kernels["graph"] >= 0).to_numpy() | by_call)


def _gaps(rank: RecordedRank) -> Gaps:
    start, end = (rank.kernels[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    rows = np.arange(len(start))
    whole = int(rank.windows[:, 0].min()), int(rank.windows[:, 1].max())
    return with_edges(gaps(start, end, rows), start, end, rows, whole)


def _give_to_synchronisation(
    rank: RecordedRank, time: Partition, found: Gaps, owner: NDArray[np.int64], late: Intervals
) -> None:
    """Give short gaps that begin while the CPU waits for the GPU to the call that waited.

    The CPU then launches into an empty queue, and what it does until then is not hidden. Without
    the call the CPU would be ahead by as long as it waited for work other than its own copy to the
    GPU: no more than that is given to the call.
    """
    waits = waits_for_gpu(rank.calls["name"], rank.blocked)
    waits &= np.isin(rank.call_threads, rank.launching)
    rows = np.flatnonzero(waits)
    if not len(rows):
        return
    calls = rank.call_spans[rows]
    working = intervals.union(rank.kernel_spans[_is_not_to_gpu(rank)])
    waited = intervals.intersection(working, intervals.union(rank.windows))
    order = np.argsort(calls[:, 0], kind="stable")
    rows, calls = rows[order], calls[order]
    # The last wait that began before the gap did, and ended in it.
    last = np.searchsorted(calls[:, 0], found.spans[:, 0], side="right") - 1
    ends = np.where(last >= 0, calls[last, 1], -1)
    drained = (last >= 0) & (ends >= found.spans[:, 0]) & (ends < late[:, 1])
    drained &= rank.call_threads[rows[last]] == owner
    drained &= late[:, 1] - ends < _REFILL_NS
    refill = np.flatnonzero(drained)
    if not len(refill):
        return
    length = late[refill, 1] - ends[refill]
    kept = _spread(length, int(intervals.overlap(calls, waited).sum()))
    names = texts(rank.calls["name"])[rows[last[refill]]]
    spans = np.column_stack((ends[refill], late[refill, 1]))
    for name in dict.fromkeys(names):
        chosen = kept & (names == name)
        time.take(f"{IDLE}.{cpu_threads.BLOCKED}.{name}", spans[chosen])


_REFILL_NS = 500_000


def _is_not_to_gpu(rank: RecordedRank) -> NDArray[np.bool_]:
    """Tell which of the kernels are no copies to the GPU."""
    return (rank.kernels["copy_kind"] != "HtoD").to_numpy()


def _spread(length: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Choose evenly of pieces of some `length` as many as have together `most`, or all."""
    total = int(length.sum())
    if total <= most:
        return np.ones(len(length), dtype=np.bool_)
    steps = np.floor(np.cumsum(length) * (most / total) / max(int(length.mean()), 1))
    return np.asarray(np.diff(np.r_[0, steps]) > 0)
