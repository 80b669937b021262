"""When the program's thread waited: for a lock or queue, for the GIL, or in a call that sleeps."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import filtered
from profkit.core.verdict import Evidence
from profkit.tables.python_frames import ACQUIRES, SLEEPS, called_functions, is_foreign, waits_in
from profkit.tables.tree_paths import SEPARATOR

WAITING = "waiting_for_thread"
LOCK, GIL = f"{WAITING}.lock", f"{WAITING}.gil"
IN_CALL = "waiting_in_call"
CAUSES = (LOCK, GIL, IN_CALL)

_LOCKS = re.compile(ACQUIRES)
_SLEEPS = re.compile(SLEEPS)
_QUEUES = re.compile(r"(?:queue|queues)\.py\(\d+\): get$")
_BLOCKS = re.compile(
    r"<built-in (?:function|method) (?:acquire|__enter__|sleep|wait\w*|join|select|poll|"
    r"run_backward|recv\w*|accept|connect|read\w*|write\w*|flush|fsync|open|system|synchronize)\b"
)
_MOSTLY = 0.5


def is_waiting(name: str) -> bool:
    """Tell whether the Python function of this name may wait, or hold the interpreter."""
    return any(called.search(name) for called in (_LOCKS, _SLEEPS, _QUEUES, _BLOCKS))


def is_sleeping(name: str) -> bool:
    """Tell whether the Python function of this name may wait without a lock."""
    return _SLEEPS.search(name) is not None


def waits(rank: RecordedRank) -> dict[str, Intervals]:
    """Return by cause when the program's thread waited, as unions.

    It waits for a lock while it has no core in a call that acquires one, which queues, events and
    futures do as well; in a call while it has none in one that sleeps, or waits for the network or
    a process; for the GIL while it asks for no core outside of calls that block, and other
    threads of Python have one, or would if there were one.
    """
    if rank.python.empty and rank.samples.empty:
        return {}
    calls = rank.python[["name", "start_ns", "end_ns"]]
    calls = filtered(calls, rank.python["tid"] == rank.main)
    found = {}
    for cause, called in {LOCK: _LOCKS, IN_CALL: _SLEEPS}.items():
        chosen = _calls_of(calls, called)
        found[cause] = intervals.union(spans_of(chosen)[_is_idle(rank, chosen)])
    blocked = intervals.union(spans_of(_calls_of(calls, _BLOCKS)))
    return found | {GIL: intervals.difference(_for_the_gil(rank), blocked)}


def _calls_of(calls: pd.DataFrame, called: re.Pattern[str]) -> pd.DataFrame:
    """Return the calls whose name contains the expression `called`."""
    return calls[named(calls["name"], lambda name: called.search(name) is not None)]


def _is_idle(rank: RecordedRank, calls: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which calls hold the thread without its running; where that is unknown, all of them."""
    known, used = _cpu_times(rank.samples)
    if not len(known):
        return np.ones(len(calls), dtype=np.bool_)
    spans = spans_of(calls)
    ran = _ran_at_least(spans, known, used)
    return np.asarray(ran < (1 - _MOSTLY) * (spans[:, 1] - spans[:, 0]))


def _ran_at_least(
    spans: Intervals, known: NDArray[np.int64], used: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how long the thread ran in each of some `spans`, at least, of the times in `known`.

    Of the time between two of these that is not in a span all may have been used: the recorder
    writes its file there, or the step goes on.
    """
    # Before the first and after the last nothing is known to have run.
    first_ns = spans[:, 0].min(initial=known[0]) - 1
    last_ns = spans[:, 1].max(initial=known[-1]) + 1
    known = np.r_[first_ns, known, last_ns]
    used = np.r_[used[0], used, used[-1]]
    start, end = spans.T
    first = np.searchsorted(known, start, "right") - 1
    last = np.searchsorted(known, end, "left") - 1
    in_one = first == last
    until = np.where(in_one, end, known[first + 1])

    def ran(gap: NDArray[np.int64], inside: NDArray[np.int64]) -> NDArray[np.int64]:
        left_out = known[gap + 1] - known[gap] - inside
        return np.maximum(used[gap + 1] - used[gap] - left_out, 0)

    whole = np.where(in_one, 0, used[last] - used[first + 1])
    at_end = np.where(in_one, 0, ran(last, end - known[last]))
    return np.asarray(ran(first, until - start) + whole + at_end, dtype=np.int64)


def _for_the_gil(rank: RecordedRank) -> Intervals:
    """Return when the thread did not run for the most part, and other threads did instead.

    To be ready without a core is as good as to run: on a busy machine both threads lack one.
    """
    known, ready = _ready_times(rank.samples)
    if rank.threads.empty or not len(known):
        return intervals.nothing()
    others = np.zeros(len(known))
    for _, rows in rank.threads[(rank.threads["cpu_ns"] >= 0).to_numpy()].groupby("tid"):
        others += np.interp(known, *_ready_times(rows))
    elapsed = np.diff(known)
    idle = elapsed - np.diff(ready)
    is_waiting = (idle > _MOSTLY * elapsed) & (np.diff(others) > _MOSTLY * idle)
    return intervals.union(np.column_stack((known[:-1], known[1:]))[is_waiting])


def evidence(rank: RecordedRank, cause: str, spans: Intervals) -> Evidence:
    """Return the call in which the union `spans` went by, or what another thread did meanwhile."""
    calls = rank.python
    if cause.endswith(IN_CALL):
        sleeps = named(calls["name"], is_sleeping)
        time = pd.Series(intervals.overlap(spans_of(calls), spans) * sleeps)
        return {"call": str(time.groupby(called_functions(calls)).sum().idxmax())}
    line = line_of_other(rank, spans)
    found: Evidence = {"thread": line}
    gets = intervals.union(spans_of(_calls_of(calls, _QUEUES)))
    inside = intervals.intersection(spans, gets)
    if intervals.total(inside) > _MOSTLY * intervals.total(spans):
        found["waits_for"] = "a queue"
        if line and _waits_too(rank, line, spans):
            found["thread_waits"] = True
    return found


def off_core_ns(rank: RecordedRank, within: Intervals) -> int:
    """Return how long the program's thread had no core `within` a union, as far as it is known."""
    known, used = _cpu_times(rank.samples)
    if not len(known):
        return 0
    windows = np.column_stack((known[:-1], known[1:]))
    elapsed = np.diff(known)
    share = np.clip(1 - np.diff(used) / np.maximum(elapsed, 1), 0, 1)
    return int((intervals.overlap(windows, within) * share).sum())


def queued_share(rank: RecordedRank) -> float:
    """Return the share of the periods in which the program's thread was ready and had no core."""
    lasted = np.diff(rank.windows).sum()
    return float(queued_ns(rank, rank.windows).sum() / max(lasted, 1))


def queued_ns(rank: RecordedRank, spans: Intervals) -> NDArray[np.float64]:
    """Return how long in each span the program's thread was ready and had no core; 0 if unknown."""
    rows = rank.samples[(rank.samples["queued_ns"] >= 0).to_numpy()].sort_values("time_ns")
    if rows.empty:
        return np.zeros(len(spans))
    known, queued = (rows[name].to_numpy(np.int64) for name in ("time_ns", "queued_ns"))
    # The kernel counts a wait when it ends: more than the time since then is from before it.
    queued = np.r_[0, np.cumsum(np.minimum(np.diff(queued), np.diff(known)))]
    start, end = spans.T
    return np.asarray(np.interp(end, known, queued) - np.interp(start, known, queued))


def _ready_times(samples: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return instants, and how long until then the thread ran or was ready to."""
    rows = samples[(samples["cpu_ns"] >= 0).to_numpy()].sort_values("time_ns", kind="stable")
    ready = rows["cpu_ns"] + rows["queued_ns"].clip(lower=0)
    return rows["time_ns"].to_numpy(np.int64), ready.to_numpy(np.int64)


def _cpu_times(samples: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return instants and the CPU time until then, as far as that is known."""
    rows = samples[(samples["cpu_ns"] >= 0).to_numpy()].sort_values("time_ns", kind="stable")
    return rows["time_ns"].to_numpy(np.int64), rows["cpu_ns"].to_numpy(np.int64)


def line_of_other(rank: RecordedRank, spans: Intervals) -> str:
    """Return the line of the program that another thread ran in the union `spans`, "" for none.

    That is where it is mostly then and else seldom: threads that always wait are not to blame.
    """
    rows = rank.threads
    if rows.empty:
        return ""
    inside = intervals.contains(spans, rows["time_ns"].to_numpy(np.int64))
    lines = rows["stack"].map(_own_line).astype(object).to_numpy()
    counts = pd.Series(inside[lines != ""]).groupby(lines[lines != ""]).agg(["sum", "size"])
    weights = counts["sum"] ** 2 / counts["size"]
    return str(weights.idxmax()) if len(weights) and weights.max() > 0 else ""


def _waits_too(rank: RecordedRank, line: str, spans: Intervals) -> bool:
    """Say whether another thread that is in `line` mostly waits there in the union `spans`."""
    inside = intervals.contains(spans, rank.threads["time_ns"].to_numpy(np.int64))
    stacks = [str(stack) for stack in rank.threads["stack"][inside]]
    there = [
        waits_in(stack.rpartition(SEPARATOR)[-1]) for stack in stacks if _own_line(stack) == line
    ]
    return sum(there) > _MOSTLY * len(there)


def _own_line(stack: str) -> str:
    frames = reversed(str(stack).split(SEPARATOR))
    return next((frame for frame in frames if frame and not is_foreign(frame)), "")
