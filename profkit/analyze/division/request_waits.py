"""When a server had nothing to do: one of its threads waited for clients, and no thread ran."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import union_of_rows
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.intervals import Intervals
from profkit.tables.python_frames import is_foreign, own_line, waits_in
from profkit.tables.tree_paths import SEPARATOR

NO_REQUEST = "waiting_for_requests"

_LOOPS = r"\): (?:serve\w*|run_forever|_run_once|handle_(?:one_)?request|_?accept)\b"
_SERVES = re.compile(_LOOPS)
"""Functions that wait for the next client, of an event loop, a server or a socket."""

_FROM_PROCESS = r"multiprocessing/(?:queues\.py\(\d+\): get|managers\.py\(\d+\): _callmethod)\b"
_CLIENTS = re.compile(
    rf"{_LOOPS}.*<built-in \w+ (?:select|poll)\b|<built-in \w+ _?accept\b|{_FROM_PROCESS}"
)
"""Stacks of a thread that waits for the next client, or for the process that hears of it."""

_ASKS = re.compile(
    r"(?:<built-in \w+ (?:recv\w*|connect|send\w*)|ssl\.py\(\d+\): \w+;<built-in \w+ read)\b[^;]*$"
)
"""Stacks of a thread that talks to another program."""

_MOSTLY = 0.5


def without_requests(rank: RecordedRank, in_call: Intervals) -> Intervals:
    """Return when a server waited for requests, as a union; nothing of a training.

    That is what of `in_call`, the time in which the program's thread waits in a call, is in a loop
    of a server, and in no function of the program that this calls. And it is from half way before
    to half way after a look at its threads at which all waited, one of them for clients, where they
    ran together for less than half of the time. Nothing is while a function of the program that the
    loop calls waits for the answer of another service.
    """
    if rank.samples.empty or bool((rank.ops["forward"] >= 0).any()):
        return intervals.nothing()
    loops = named(rank.python["name"], lambda name: _SERVES.search(name) is not None)
    on_main = (rank.python["tid"] == rank.main).to_numpy()
    answers = _inside(rank.python, loops & on_main) & on_main
    answers &= ~named(rank.python["name"], is_foreign)
    own = intervals.intersection(in_call, union_of_rows(rank.python, loops))
    own = intervals.difference(own, union_of_rows(rank.python, answers))
    all_wait, asks = _looked_at(rank)
    asked_ns = intervals.total(intervals.intersection(own, asks))
    if asked_ns > _MOSTLY * intervals.total(own):  # the loop is around the waiting for a service
        own = intervals.nothing()
    return intervals.difference(intervals.union(np.concatenate((own, all_wait))), asks)


def _inside(calls: pd.DataFrame, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which calls, in the order of `sampled_calls`, are made inside of some."""
    start, end = (calls[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    reach = np.maximum.accumulate(np.where(which, end, 0))
    return np.asarray(start < np.r_[0, reach[:-1]])


def _looked_at(rank: RecordedRank) -> tuple[Intervals, Intervals]:
    """Return when all threads waited, one of them for clients, and when one asked a service."""
    columns = ["tid", "time_ns", "cpu_ns", "queued_ns", "stack"]
    rows = pd.concat([rank.samples[columns], rank.threads[columns]], ignore_index=True)
    stacks = rows["stack"].astype(object)
    known = {stack: str(stack) for stack in stacks.unique()}
    rows["waits"] = stacks.map(
        {stack: waits_in(text.rpartition(SEPARATOR)[-1]) for stack, text in known.items()}
    )
    rows["serves"] = stacks.map(
        {stack: bool(_CLIENTS.search(text)) for stack, text in known.items()}
    )
    rows["asks"] = stacks.map({stack: _asks(text) for stack, text in known.items()})
    how = {"waits": "all", "serves": "any", "asks": "any"}
    looks = rows.groupby("time_ns", sort=True).agg(how)
    times = looks.index.to_numpy(np.int64)
    is_idle = (looks["waits"] & looks["serves"]).to_numpy(bool)
    is_asking = looks["asks"].to_numpy(bool)
    before, after = times[:-1], times[1:]
    halfway = before + (after - before) // 2
    is_quiet = np.diff(_ran_ns(rows, times)) < _MOSTLY * (after - before)
    first, second = np.column_stack((before, halfway)), np.column_stack((halfway, after))
    idle = np.concatenate((first[is_quiet & is_idle[:-1]], second[is_quiet & is_idle[1:]]))
    asking = np.concatenate((first[is_asking[:-1]], second[is_asking[1:]]))
    return intervals.union(idle), intervals.union(asking)


def _asks(stack: str) -> bool:
    """Say whether a function of the program, which no server's own loop is, asks a service."""
    if not _ASKS.search(stack):
        return False
    *_, since_loop = _SERVES.split(stack)
    return bool(own_line(since_loop))


def _ran_ns(rows: pd.DataFrame, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how long all threads together had run until each of `times`, or were ready to."""
    total = np.zeros(len(times))
    for _, own in rows[(rows["cpu_ns"] >= 0).to_numpy()].groupby("tid"):
        ready = own["cpu_ns"] + own["queued_ns"].clip(lower=0)
        total += np.interp(times, own["time_ns"].to_numpy(np.int64), ready.to_numpy(np.int64))
    return total
