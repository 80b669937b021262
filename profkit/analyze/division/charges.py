"""What each row is charged with: its own part of the time of one cause or of several."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import cpu, gpu
from profkit.analyze.division.cpu_threads import BLOCKED, START_UP
from profkit.analyze.division.partition import (
    Partition,
    alone,
    innermost_time,
    spans_of,
    union_of_rows,
)
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.glob_match import texts
from profkit.analyze.shared.intervals import Intervals

Times = NDArray[np.int64]
_NOTHING = intervals.nothing()


def of_kernels(rank: RecordedRank, time: Partition) -> Times:
    """Return the time in ns that each kernel alone is charged with; 0 for what is hidden."""
    charged = np.zeros(len(rank.kernels), dtype=np.int64)
    kinds = texts(rank.kernels["kind"])
    names = rank.copy_names
    groups = {gpu.COMPUTING: kinds == "compute", "exposed_sets": kinds == "set"}
    groups |= {f"exposed_copies.{name}": names == name for name in dict.fromkeys(names) if name}
    spans = rank.kernel_spans
    for cause, rows in groups.items():
        charged[rows] = intervals.overlap(alone(spans[rows]), time.spans(cause))
    rows = kinds == "communication"
    exposed = union_of(time, gpu.EXPOSED)
    charged[rows] = intervals.overlap(alone(spans[rows]), exposed)
    return charged


def of_calls(rank: RecordedRank, time: Partition) -> Times:
    """Return how long the GPU was idle while the CPU was in each runtime call.

    Of a GPU that was not recorded, how long each call held the CPU.
    """
    return intervals.overlap(rank.call_spans, union_of(time, gpu.IDLE, BLOCKED, START_UP))


def of_operators(rank: RecordedRank, time: Partition) -> Intervals:
    """Return the time that operators are charged with: their work, or GPU idle time, as a union."""
    if len(rank.kernels):
        return union_of(time, gpu.IDLE)
    return union_of(time, cpu.COMPUTING, "loading_data", "compiler")


def of_ops(rank: RecordedRank, within: Intervals) -> Times:
    """Return what each operator by itself is charged with of a union, see `of_operators`."""
    threads = rank.launching if len(rank.kernels) else rank.roles.threads
    return of_threads(rank, within, threads)


def of_python(rank: RecordedRank, within: Intervals) -> Times:
    """Return how long each call of a Python function was the innermost one `within` a union."""
    numbers = (rank.python[name].to_numpy(np.int64) for name in ("call", "caller"))
    parent = calltree.positions(*numbers)
    return innermost_time(spans_of(rank.python), parent, within)


def of_threads(rank: RecordedRank, within: Intervals, threads: Iterable[int]) -> Times:
    """Return how long each operator of `threads`, the first of which come first, was innermost."""
    own = np.zeros(len(rank.ops), dtype=np.int64)
    left, before = _near(rank.ops, within), np.zeros(0, dtype=np.bool_)
    for thread in threads:
        on_thread = rank.op_threads == thread
        if not on_thread.any():
            continue
        if len(before):
            left = intervals.difference(left, union_of_rows(rank.ops, before))
        before = on_thread
        inside = np.zeros(len(rank.ops), dtype=np.int64)
        for block in intervals.blocks(len(own)):
            some = block.start + np.flatnonzero(on_thread[block])
            own[some] = intervals.overlap(rank.charged_spans(some), left)
            parents = rank.op_parents[some]
            known = (parents >= 0) & on_thread[parents]
            np.add.at(inside, parents[known], own[some][known])
        np.maximum(np.subtract(own, inside, out=own), 0, out=own)
    return own


def _near(ops: pd.DataFrame, within: Intervals) -> Intervals:
    """Return what of a union may be in any of `ops`, which may be some of many."""
    if ops.empty:
        return intervals.nothing()
    reach = [[ops["start_ns"].min(), ops["end_ns"].max()]]
    return intervals.intersection(within, np.array(reach, dtype=np.int64))


def union_of(time: Partition, *causes: str) -> Intervals:
    """Return the union that `causes`, and those below them, have."""
    found = [
        time.spans(name)
        for name in time.parts
        if any(name == cause or name.startswith(f"{cause}.") for cause in causes)
    ]
    return found[0] if len(found) == 1 else intervals.union(np.concatenate([_NOTHING, *found]))
