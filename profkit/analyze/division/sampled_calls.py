"""Calls of Python functions as sampled stacks show them, for recordings without real ones."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.tables import schema
from profkit.tables.tree_paths import SEPARATOR

_LONGEST_GAPS = 5
_IDLE = 0.1
_COLUMNS = ("call", "caller", "tid", "name", "start_ns", "end_ns")


def sampled_calls(samples: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Return rows like those of `python_calls`, from the `python_samples` of one rank and repeat.

    The lines are those that ran. A frame lasts from about half way between the last sample without
    it and the first one with it: not earlier than the first of `ops` begins or ends in between, nor
    later than the last, since the program does one thing where no operator does either. All that
    ran in between did so on the other side of a wait: without operators the CPU time says how long.
    Far from any sample nothing is known.
    """
    rows = samples.sort_values("time_ns", kind="stable")
    if len(rows) <= 1:
        return schema.frame("python_calls")
    stacks = [str(stack).split(SEPARATOR) for stack in rows["stack"].astype(object)]
    made = _Calls(tid=int(rows["tid"].iloc[0]))
    for stack, (start, end) in zip(stacks, _spans(rows, ops).tolist(), strict=True):
        made.add(stack, start, end)
    count = len(made.rows)
    columns: dict[str, list[Any]] = {name: [row[name] for row in made.rows] for name in _COLUMNS}
    columns |= {name: [int(rows[name].iloc[0])] * count for name in ("rank", "repeat")}
    columns["kind"] = ["function"] * count
    calls: pd.DataFrame = schema.table("python_calls", columns).to_pandas()
    return calls


def with_stacks(ops: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the operators of one rank, those without a recorded stack with a sampled one.

    It is the stack in which the middle of the operator was, on the thread that was sampled.
    """
    rows = samples.sort_values("time_ns", kind="stable")
    if len(rows) <= 1:
        return ops
    spans = _spans(rows, ops)
    start, end = (ops[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    middle = start + (end - start) // 2
    at = np.searchsorted(spans[:, 0], middle, side="right") - 1
    known = (at >= 0) & (middle < spans[at, 1])
    known &= ((ops["tid"] == rows["tid"].iloc[0]) & (ops["stack"] == "")).to_numpy()
    stacks = ops["stack"].astype(object).to_numpy()
    stacks = np.where(known, rows["stack"].astype(object).to_numpy()[at], stacks)
    return ops.assign(stack=pd.Categorical(stacks))


def _spans(rows: pd.DataFrame, ops: pd.DataFrame) -> NDArray[np.int64]:
    """Return from when to when each of the sorted samples tells what the thread did."""
    times = rows["time_ns"].to_numpy(np.int64)
    own = ops[(ops["tid"] == rows["tid"].iloc[0]).to_numpy()]
    edges = np.unique(own[["start_ns", "end_ns"]].to_numpy(np.int64))
    longest = _LONGEST_GAPS * int(np.median(np.diff(times)))
    between = _boundaries(rows, edges)
    starts = np.maximum(np.r_[times[0], between], times - longest)
    ends = np.minimum(np.r_[between, times[-1] + longest // _LONGEST_GAPS], times + longest)
    return np.column_stack((starts, ends))


def _boundaries(rows: pd.DataFrame, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time between each two samples at which one stack gave way to the next."""
    times, used = (rows[name].to_numpy(np.int64) for name in ("time_ns", "cpu_ns"))
    before, after = times[:-1], times[1:]
    ran = np.clip(np.diff(used), 0, after - before)
    halfway = before + (after - before) // 2
    first, last = halfway, halfway
    has_edges = np.zeros(len(halfway), dtype=np.bool_)
    if len(edges):
        first = np.append(edges, np.iinfo(np.int64).max)[np.searchsorted(edges, before)]
        last = np.append(edges, np.iinfo(np.int64).min)[np.searchsorted(edges, after, "right") - 1]
        has_edges = first <= last
    # A thread that waits in both of two looks has run nothing in between.
    stacks = rows["stack"].cat.codes.to_numpy()
    waits = (stacks[1:] == stacks[:-1]) & (used[:-1] >= 0) & (ran < _IDLE * (after - before))
    waited, waiting = np.r_[False, waits[:-1]], np.r_[waits[1:], False]
    runs_after, ran_before = waited & ~waiting, waiting & ~waited
    found = np.where(has_edges, np.clip(halfway, first, last), halfway)
    found = np.where(runs_after, np.where(has_edges, first, after - ran), found)
    found = np.where(ran_before, np.where(has_edges, last, before + ran), found)
    return np.asarray(found, dtype=np.int64)


class _Calls:
    """Frames that are open, from the root, and the rows of all calls."""

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.rows: list[dict[str, int | str]] = []
        self.open: list[int] = []
        self.until = -1

    def add(self, stack: list[str], start_ns: int, end_ns: int) -> None:
        """Prolong the open frames that `stack` shows as well, and open the others."""
        same = 0
        # What lies between two samples that are far apart is not known.
        while (
            start_ns == self.until
            and same < min(len(stack), len(self.open))
            and self.rows[self.open[same]]["name"] == stack[same]
        ):
            same += 1
        del self.open[same:]
        for name in stack[same:]:
            caller = self.open[-1] if self.open else -1
            row = {"call": len(self.rows), "caller": caller, "tid": self.tid}
            self.open.append(len(self.rows))
            self.rows.append({**row, "name": name, "start_ns": start_ns, "end_ns": end_ns})
        for number in self.open[:same]:
            self.rows[number]["end_ns"] = end_ns
        self.until = end_ns
