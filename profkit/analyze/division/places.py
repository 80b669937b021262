"""Where in the program time was spent: the Python line, the module or the operator."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import innermost_time, spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.sampled_calls import ORIGIN
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.glob_match import categorical
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import MARKS, filtered
from profkit.tables.python_frames import is_foreign, own_lines
from profkit.tables.tree_paths import SEPARATOR

_CALLS = ["call", "caller", "name", "kind", "start_ns", "end_ns"]
_RANGES = ["op", "parent", "name", "start_ns", "end_ns"]
Place = tuple[str, int]
"""A place and the time spent in it, in ns."""


def threads(rank: RecordedRank) -> list[int]:
    """Return the threads whose places are shown: the program's, and those that launched."""
    return list(dict.fromkeys([rank.main, *rank.launching]))


def by_function(rank: RecordedRank, spans: Intervals) -> list[Place]:
    """Return the lines of the program that ran in the union `spans`, none if none was recorded.

    Where samples say nothing, the phases do that it lies between.
    """
    on_thread = np.isin(rank.python["tid"].to_numpy(np.int64), threads(rank))
    if not on_thread.any():
        return []
    blocks = map(rank.python.iloc.__getitem__, intervals.blocks(len(rank.python)))
    near = np.concatenate([intervals.overlap(spans_of(rows), spans) > 0 for rows in blocks])
    rows = filtered(rank.python[_CALLS], on_thread & near)
    call, caller = (rows[name].to_numpy(np.int64) for name in ("call", "caller"))
    parent = calltree.positions(call, caller)
    own = innermost_time(spans_of(rows), parent, spans)
    known = [*_ranked(own_lines(rows), own), *_unseen(rank, spans)]
    return sorted(known, key=lambda place: -place[1])


def _unseen(rank: RecordedRank, spans: Intervals) -> list[Place]:
    """Return between which phases the program was in the `spans` in which no sample shows it."""
    if not rank.is_sampled:
        return []
    phases = rank.phases
    unseen = intervals.difference(spans, intervals.union(spans_of(rank.python)))
    time = np.where(phases.are_between, intervals.overlap(phases.spans, unseen), 0)
    return _ranked(phases.names, time)


def by_range(rank: RecordedRank, spans: Intervals) -> list[Place]:
    """Return the innermost ranges of the program's thread in the union `spans`, most first."""
    is_range = (rank.ops["kind"] == "annotation").to_numpy()
    rows = filtered(rank.ops[_RANGES], is_range & np.isin(rank.op_threads, threads(rank)))
    number, above = (rows[name].to_numpy(np.int64) for name in ("op", "parent"))
    own = innermost_time(spans_of(rows), calltree.positions(number, above), spans)
    found = _ranked(rows["name"].to_numpy(object), own)
    return [place for place in found if not place[0].startswith(MARKS)]


def of_ops(rank: RecordedRank, time: NDArray[np.int64]) -> list[Place]:
    """Return where operators belong that are charged with `time`, most first."""
    return ranked(in_ops(rank, time))


def in_ops(rank: RecordedRank, time: NDArray[np.int64]) -> "Counter[str]":
    """Return the `time` that operators are charged with by the place where they belong."""
    stack_of = ORIGIN if ORIGIN in rank.ops else "stack"
    columns = [categorical(rank.ops[name]) for name in (stack_of, "module")]
    stacks, modules = (np.append(one.categories.to_numpy(object), "") for one in columns)
    spent: Counter[int] = Counter()
    # Of millions of operators few have stacks and modules of their own.
    for block in intervals.blocks(len(time)):
        rows = block.start + np.flatnonzero(time[block])
        stack, module = (one.codes[rows].astype(np.int64) for one in columns)
        distinct, number = np.unique(
            stack * len(modules) + module % len(modules), return_inverse=True
        )
        sums = calltree.sums(number, time[rows], len(distinct))
        spent.update(dict(zip(distinct.tolist(), sums.tolist(), strict=True)))
    found: Counter[str] = Counter()
    for key, ns in spent.items():
        at, below = divmod(key, len(modules))
        found[line_of(str(stacks[at])) or str(modules[below]).split(SEPARATOR)[-1]] += ns
    return found


def line_of(stack: str) -> str:
    """Return the innermost frame of a recorded stack that is the program's own, "" if none is."""
    frames = [frame for frame in stack.split(SEPARATOR) if frame]
    return next((frame for frame in frames[::-1] if not is_foreign(frame)), "")


def _ranked(labels: NDArray[np.object_], time: NDArray[np.int64]) -> list[Place]:
    numbers, distinct = pd.factorize(labels)
    sums = calltree.sums(numbers, time, len(distinct)).tolist()
    return ranked(dict(zip(map(str, distinct), sums, strict=True)))


def ranked(spent: Mapping[str, int]) -> list[Place]:
    """Return the places with a name in which time was `spent`, most first."""
    known = [(label, ns) for label, ns in spent.items() if label and ns > 0]
    return sorted(known, key=lambda place: (-place[1], place[0]))


def shown(places: list[Place], least: int) -> str:
    """Return the first of the `places` if at least that many ns were spent there, else ""."""
    return places[0][0] if places and places[0][1] >= least else ""
