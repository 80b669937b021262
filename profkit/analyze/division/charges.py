"""What each row is charged with: its own part of the time of one cause or of several."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import cpu, gpu
from profkit.analyze.division.cpu_threads import BLOCKED, START_UP
from profkit.analyze.division.known_names import COMMUNICATING, COMPILED, LOADING
from profkit.analyze.division.partition import (
    Partition,
    alone,
    innermost_time,
    spans_of,
    union_of_rows,
)
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.glob_match import matching, texts
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
    """Return how long each operator of `threads`, the first of which come first, was innermost.

    What only names, as the range of a step or a phase, hides no operator of another thread.
    """
    own = np.zeros(len(rank.ops), dtype=np.int64)
    left, rows = _near(rank.ops, within), [rank.op_threads == thread for thread in threads]
    rows = [on_thread for on_thread in rows if on_thread.any()]
    if len(rows) == 1:  # as mostly without a GPU: nothing can be hidden
        _charge(rank, own, rows[0], left)
        return own
    named = _only_names(rank.ops)
    for on_thread in rows:
        covered = union_of_rows(rank.ops, on_thread & ~named)
        _charge(rank, own, on_thread, intervals.intersection(left, covered))
        left = intervals.difference(left, covered)
    for ranges in (on_thread & named for on_thread in rows):
        _charge(rank, own, ranges, left)
        left = intervals.difference(left, union_of_rows(rank.ops, ranges))
    return own


def _only_names(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows are ranges that neither compute, nor load, nor communicate."""
    is_range = (ops["kind"] == "annotation").to_numpy()
    return is_range & ~matching(ops["name"], (*COMPILED, *COMMUNICATING, *LOADING))


def _charge(rank: RecordedRank, own: Times, chosen: NDArray[np.bool_], within: Intervals) -> None:
    """Add to `own` how long each of the `chosen` rows of a thread was innermost of them."""
    inside = np.zeros(len(own), dtype=np.int64)
    lasted = np.zeros(len(own), dtype=np.int64)
    for block in intervals.blocks(len(own)):
        some = block.start + np.flatnonzero(chosen[block])
        lasted[some] = intervals.overlap(rank.charged_spans(some), within)
        parents = rank.op_parents[some]
        known = (parents >= 0) & chosen[parents]
        np.add.at(inside, parents[known], lasted[some][known])
    own += np.maximum(np.subtract(lasted, inside, out=lasted), 0, out=lasted)


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
