"""Operators that call a collective, and wait for it in code that no operator inside of them is."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.known_names import CALLING, IN_COMPILED
from profkit.analyze.division.partition import spans_of, union_of_rows
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.intervals import Intervals

_AT_ONCE_NS, _AT_ONCE = 200_000, 0.02
"""After the end of what is waited for, and the part of the wait: a thread has to get a core."""


def first_calls(ops: pd.DataFrame) -> NDArray[np.int64]:
    """Return when each operator of a rank first calls a collective on its thread, -1 for never.

    Code that was compiled computes in no operator, so that it is not known to wait.
    """
    found = np.full(len(ops), -1, dtype=np.int64)
    calls = matching(ops["name"], CALLING)
    if not calls.any():
        return found
    threads, start, end = (ops[name].to_numpy(np.int64) for name in ("tid", "start_ns", "end_ns"))
    for thread in np.unique(threads[calls]):
        rows = np.flatnonzero(threads == thread)
        called = np.append(np.sort(start[rows[calls[rows]]]), np.iinfo(np.int64).max)
        first = called[np.searchsorted(called, start[rows])]
        found[rows] = np.where(first < end[rows], first, -1)
    found[matching(ops["name"], IN_COMPILED)] = -1
    return found


def waiting(ops: pd.DataFrame, works: NDArray[np.bool_], communicating: Intervals) -> Intervals:
    """Return the part of the union `communicating` in which operators wait for it, as a union.

    They are those that `works` selects, behind their first call, while no other one of them runs
    inside, as in an ``autograd.Function`` of the program that waits for what it has called.
    """
    first = first_calls(ops)
    calling = works & (first >= 0)
    if not calling.any():
        return intervals.nothing()
    after = spans_of(ops, calling)
    after[:, 0] = first[calling]
    found = intervals.difference(intervals.union(after), union_of_rows(ops, works & ~calling))
    return intervals.intersection(found, communicating)


def awaited(ops: pd.DataFrame, on_main: NDArray[np.bool_], patterns: tuple[str, ...]) -> Intervals:
    """Return when the program's thread waited for communication of other threads, as a union.

    That is known where it does nothing until one of the ranges that match `patterns` ends, and goes
    on right then, as backward does under DDP: no operator of its own shows it waiting.
    """
    ranges = spans_of(ops, matching(ops["name"], patterns) & ~on_main)
    own = union_of_rows(ops, on_main & (ops["kind"] == "operator").to_numpy())
    if not len(ranges) or not len(own):
        return intervals.nothing()
    ends = ranges[:, 1]
    follows = np.searchsorted(own[:, 0], ends)
    is_between = (follows > 0) & (follows < len(own))
    begins = np.maximum(own[:, 1][follows - 1], ranges[:, 0])
    goes_on = own[:, 0][np.minimum(follows, len(own) - 1)] - ends
    is_right_then = goes_on <= np.maximum(_AT_ONCE_NS, _AT_ONCE * (ends - begins))
    chosen = is_between & (begins < ends) & is_right_then
    return intervals.union(np.column_stack((begins, ends))[chosen])
