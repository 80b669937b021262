"""The step of a rank without a GPU: operators, data loading, communication, Python, waiting."""

import numpy as np

from profkit.analyze.division import collective_calls
from profkit.analyze.division.cpu_threads import (
    DEVICE_START,
    FIRST_BATCH,
    NOT_RECORDED,
    PYTHON,
    take_blocked,
)
from profkit.analyze.division.gpu import EXPOSED
from profkit.analyze.division.known_names import (
    BACKWARD,
    CALLING,
    COMMUNICATING,
    COMPILING,
    IN_BACKWARD,
)
from profkit.analyze.division.partition import Partition, union_of_rows
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.request_waits import NO_REQUEST, without_requests
from profkit.analyze.division.thread_waits import IN_CALL, waits
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

COMPUTING = "cpu_operators"
_MOSTLY, _LONG_NS = 0.5, 500_000


def divide(rank: RecordedRank) -> Partition:
    """Divide the periods of a rank that recorded operators and no kernels."""
    time = Partition(rank.windows)
    # What it leaves behind is collected meanwhile.
    time.take("compiler", rank.ranges(COMPILING, rank.main))
    time.take("garbage_collection", rank.collecting)
    time.take(DEVICE_START, rank.device_start())
    time.take(FIRST_BATCH, rank.first_batch(rank.main))
    time.take("loading_data", rank.loading(rank.main))
    on_main, calls_main = rank.op_threads == rank.main, rank.call_threads == rank.main
    # Of a GPU whose work was not recorded the calls may have been.
    take_blocked(rank, time, "", calls_main, time.left)
    time.take(COMPUTING, rank.computing)
    take_blocked(rank, time, "", ~calls_main, time.left)
    time.take(COMPUTING, union_of_rows(rank.ops, rank.works & ~on_main))
    sees_cpu = bool(rank.works.any()) and rank.sees_cpu
    communication = rank.communicating
    if rank.works.any() and not sees_cpu:
        # It is unknown what the program's thread did beside the communication of others.
        known = rank.ranges((*COMMUNICATING, *CALLING), rank.main)
        waited_for = collective_calls.awaited(rank.ops, on_main, COMMUNICATING)
        communication = intervals.union(np.concatenate((known, waited_for)))
    if len(rank.collectives):
        waiting = intervals.intersection(communication, rank.waiting_for_ranks)
        time.take(f"{EXPOSED}.waiting", waiting)
        time.take(f"{EXPOSED}.transfer", communication)
    else:
        time.take(f"{EXPOSED}.waiting_or_transfer", communication)
    if not sees_cpu:
        time.take(NOT_RECORDED, time.left)
    waited = waits(rank)
    time.take(NO_REQUEST, without_requests(rank, waited.get(IN_CALL, intervals.nothing())))
    for cause, spans in waited.items():
        time.take(cause, spans)
    time.take(NOT_RECORDED, _unseen(rank, time.left))
    time.take(PYTHON, time.left)
    return time


def _unseen(rank: RecordedRank, left: Intervals) -> Intervals:
    """Return what is `left` of backward where autograd works on a thread that was not recorded.

    It works for a GPU on another one than that of the program, which waits meanwhile.
    """
    backward = rank.ranges(BACKWARD, rank.main)
    waited = intervals.difference(intervals.intersection(left, backward), rank.ranges(IN_BACKWARD))
    # Between the nodes of a small model the program's own thread calls the next one.
    waited = waited[waited[:, 1] - waited[:, 0] >= _LONG_NS]
    is_most = intervals.total(waited) > _MOSTLY * intervals.total(backward)
    return waited if is_most else intervals.nothing()
