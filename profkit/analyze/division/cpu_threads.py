"""What a CPU thread did while a GPU waited for it."""

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.division.known_names import COMPILING, RECORDING_GRAPHS
from profkit.analyze.division.partition import Partition, union_of_rows
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.request_waits import NO_REQUEST, without_requests
from profkit.analyze.division.thread_waits import IN_CALL, waits
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import texts
from profkit.analyze.shared.intervals import Intervals

PYTHON, NOT_RECORDED, BLOCKED, START_UP = "python", "not_recorded", "blocked", "start_up"
FIRST_BATCH = f"{START_UP}.first_batch"
DEVICE_START = f"{START_UP}.first_use_of_a_device"
AROUND_WORK = f"{START_UP}.before_and_after_work"


def divide(rank: RecordedRank, time: Partition, under: str, owned: dict[int, Intervals]) -> None:
    """Divide the spans that each thread `owned` by what it did, as causes below `under`.

    Where a thread did nothing that was recorded, the program's own thread may have.
    """
    for thread, spans in owned.items():
        _of_thread(rank, time, under, thread, spans)
        if thread != rank.main:
            _of_thread(rank, time, under, rank.main, spans)
    rest = intervals.union(np.concatenate([intervals.nothing(), *owned.values()]))
    waited = waits(rank)
    idle = without_requests(rank, waited.get(IN_CALL, intervals.nothing()))
    time.take(f"{under}.{NO_REQUEST}", intervals.intersection(idle, rest))
    for cause, spans in waited.items():
        time.take(f"{under}.{cause}", intervals.intersection(spans, rest))
    time.take(f"{under}.{PYTHON if rank.sees_cpu else NOT_RECORDED}", rest)


def take_blocked(
    rank: RecordedRank, time: Partition, above: str, which: NDArray[np.bool_], within: Intervals
) -> None:
    """Take the time `within` a union in which `which` calls held the CPU, by call.

    The ids of the causes begin with `above`.
    """
    names = texts(rank.calls["name"], _without_dots)
    blocked = np.flatnonzero(which & rank.blocked)
    causes = np.where(rank.one_off[blocked], f"{above}{START_UP}.", f"{above}{BLOCKED}.")
    causes = causes.astype(object) + names[blocked]
    for cause in dict.fromkeys(causes):
        rows = blocked[causes == cause]
        spans = intervals.intersection(intervals.union(rank.call_spans[rows]), within)
        time.take(str(cause), spans)


def _of_thread(
    rank: RecordedRank, time: Partition, under: str, thread: int, owned: Intervals
) -> None:
    """Take of the `owned` spans all that `thread` did in them, calls first."""
    on_thread = rank.call_threads == thread
    near = intervals.overlap(rank.call_spans, owned) > 0
    take_blocked(rank, time, f"{under}.", on_thread & near, owned)
    for cause, found in (
        # What these leave behind is collected meanwhile.
        ("recording_graph", rank.ranges(RECORDING_GRAPHS, thread)),
        ("compiler", rank.ranges(COMPILING, thread)),
        ("garbage_collection", rank.collecting),
        (FIRST_BATCH, rank.first_batch(thread)),
        ("loading_data", rank.loading(thread)),
    ):
        time.take(f"{under}.{cause}", intervals.intersection(found, owned))
    works = union_of_rows(rank.ops, rank.works & (rank.op_threads == thread))
    calls = intervals.union(rank.call_spans[on_thread & near])
    for spans in (works, calls):
        time.take(f"{under}.{PYTHON}", intervals.intersection(spans, owned))


def _without_dots(name: str) -> str:
    return name.replace(".", "_")
