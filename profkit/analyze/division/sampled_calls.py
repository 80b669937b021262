"""Calls of Python functions as sampled stacks show them, for recordings without real ones."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.phases import BETWEEN, Stretches, stretches
from profkit.analyze.shared import calltree
from profkit.analyze.shared.calls_apart import PHASE
from profkit.analyze.shared.intervals import Intervals
from profkit.tables import schema
from profkit.tables.python_frames import is_foreign
from profkit.tables.tree_paths import SEPARATOR

ORIGIN = "origin"
"""Column of operators: the stack of what each computes, or computes the gradient of."""

IS_SELDOM = "is_seldom"
"""Whether a sample lies in a step that took far longer than most, and tells nothing of these."""

_LONGEST_GAPS = 5
_IDLE = 0.1
_KEPT = 0.5
_FEWEST = 2
_MOST_PIECES = 20_000
"""Of the stretches of a kind without a sample: a program may call its model 1,000 times a step."""

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples are spread evenly between whole numbers."""

_TIMES_AS_LONG = 4
"""A time between two phases that lasts longer than this is used for something else than others of
its kind, as the one after a loop that calls the model."""

_COLUMNS = ("caller", "name", "start_ns", "end_ns")
_SEEN = ("tid", "start_ns", "end_ns", "stack")
_NOT_BETWEEN = re.compile(
    rf"{PHASE}|torch/nn/modules/module\.py\(\d+\): _(?:wrapped_)?call_impl"
    r"|torch/(?:autograd|utils/data|profiler)/\w+\.py\(|profkit/(?:marks|capture/harness/ranks)"
)
"""Frames of the phases themselves, and of profkit. Copies of weights are none of them."""


def seen_stacks(samples: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Return from when to when each stack ran, from the samples of one rank and repeat.

    They are rows of `python_samples`, with the column `IS_SELDOM`.

    A stack lasts from about half way after the last sample: not earlier than the first of `ops`
    begins or ends in between, nor later than the last, since the program does one thing where no
    operator does either. All that ran in between did so on the other side of a wait: without
    operators the CPU time says how long. Far from any sample nothing is known, but after a call
    that kept the interpreter from looking.

    No stack reaches beyond the phase, or the time between two phases, that it was seen in. One that
    was never looked at has what was seen in others of its kind, those of other steps mostly, if
    that is more than one sample; a time between phases only if they are not far longer.
    """
    rows = samples.sort_values("time_ns", kind="stable")
    if len(rows) <= 1:
        return pd.DataFrame(columns=list(_SEEN)).astype(dict.fromkeys(_SEEN[:3], np.int64))
    tid = int(rows["tid"].iloc[0])
    own = ops[(ops["tid"] == tid).to_numpy()]
    known = stretches(own)
    at = known.at(rows["time_ns"].to_numpy(np.int64))
    spans = _spans(rows, own, known, at)
    stacks = rows["stack"].astype(object).to_numpy()
    pieces = [*zip(spans[:, 0], spans[:, 1], stacks, strict=True), *_elsewhere(rows, known, at)]
    found = pd.DataFrame(pieces, columns=list(_SEEN[1:])).assign(tid=tid)[list(_SEEN)]
    return found.sort_values("start_ns", kind="stable", ignore_index=True)


def sampled_calls(seen: pd.DataFrame, where: tuple[int, int]) -> pd.DataFrame:
    """Return rows like those of `python_calls` from the `seen_stacks` of a rank and repeat.

    The lines are those that ran.
    """
    if seen.empty:
        return schema.frame("python_calls")
    made = _Calls()
    for start, end, stack in zip(*(seen[name].tolist() for name in _SEEN[1:]), strict=True):
        made.add(str(stack).split(SEPARATOR), start, end)
    made.close()
    count = len(made.columns["name"])
    columns = made.columns | {"call": list(range(count)), "kind": ["function"] * count}
    columns |= {"rank": [where[0]] * count, "repeat": [where[1]] * count}
    columns["tid"] = [int(seen["tid"].iloc[0])] * count
    calls: pd.DataFrame = schema.table("python_calls", columns).to_pandas()
    return calls


def with_stacks(ops: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """Return the operators of one rank, those without a recorded stack with the one `seen`.

    It is the stack in which the middle of the operator was, on the thread that was sampled.
    """
    if seen.empty:
        return ops
    start, end = (ops[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    middle = start + (end - start) // 2
    begins, ends = (seen[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    at = np.searchsorted(begins, middle, side="right") - 1
    known = (at >= 0) & (middle < ends[at])
    known &= ((ops["tid"] == seen["tid"].iloc[0]) & (ops["stack"] == "")).to_numpy()
    stacks = ops["stack"].astype(object).to_numpy()
    stacks = np.where(known, seen["stack"].astype(object).to_numpy()[at], stacks)
    made = ops.assign(stack=pd.Categorical(stacks))
    return made.assign(**{ORIGIN: _of_forward(made)})


def _of_forward(ops: pd.DataFrame) -> pd.Categorical:
    """Return the stack of each operator, in backward that of the one whose gradient it computes."""
    numbers, parents, forward = (
        ops[name].to_numpy(np.int64) for name in ("op", "parent", "forward")
    )
    above = calltree.positions(numbers, parents)
    above = np.where(above == np.arange(len(ops)), -1, above)
    node = calltree.nearest(np.arange(len(ops)), above, forward < 0)
    row = calltree.positions(numbers, np.append(forward, -1)[node])
    stack = ops["stack"].cat
    codes = np.append(stack.codes.to_numpy(), -1)
    is_known = np.append(stack.categories != "", False)[codes[row]] & (row >= 0)
    return pd.Categorical.from_codes(
        np.where(is_known, codes[row], codes[:-1]), categories=stack.categories
    )


def _spans(
    rows: pd.DataFrame, own: pd.DataFrame, known: Stretches, at: NDArray[np.int64]
) -> Intervals:
    """Return from when to when each of the sorted samples tells what the thread did.

    `own` are the operators of the thread, `at` its stretches that the samples lie in.
    """
    times = rows["time_ns"].to_numpy(np.int64)
    edges = np.unique(own[["start_ns", "end_ns"]].to_numpy(np.int64))
    usual = int(np.median(np.diff(times)))
    longest = _LONGEST_GAPS * usual
    free = _since(edges, times[:-1], times[1:])
    held = _held_the_gil(rows, free, longest)
    # Right after a look there was time for one more, had the interpreter been free.
    between = np.where(free == times[:-1], free + usual, free)
    between = np.where(held, between, _boundaries(rows, edges))
    least, most = _limits(known, at, times)
    # What lies between the stretches of two samples was seen by neither.
    apart = (at[1:] != at[:-1]) & (most[:-1] <= least[1:])
    until, since = np.where(apart, most[:-1], between), np.where(apart, least[1:], between)
    seen_since = np.where(np.r_[False, held], np.r_[times[0], since], times - longest)
    starts = np.maximum(np.maximum(np.r_[times[0], since], seen_since), least)
    ends = np.r_[until, times[-1] + longest // _LONGEST_GAPS]
    return np.column_stack((starts, np.minimum(np.minimum(ends, times + longest), most)))


def _since(
    edges: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return since when no operator began or ended, at most from `before` on, until `after`."""
    last = np.r_[np.iinfo(np.int64).min, edges][np.searchsorted(edges, after)]
    return np.asarray(np.maximum(last, before), dtype=np.int64)


def _held_the_gil(rows: pd.DataFrame, free: NDArray[np.int64], longest: int) -> NDArray[np.bool_]:
    """Tell between which two samples the thread kept the interpreter, and so the looks from coming.

    It ran for most of a long time, since `free`, and no operator did, which let go of it, and until
    then looks came: the next sample is from the end of a call in C.
    """
    times, used = (rows[name].to_numpy(np.int64) for name in ("time_ns", "cpu_ns"))
    alone = times[1:] - free
    known = (used[:-1] >= 0) & (used[1:] >= 0)
    came = free - times[:-1]
    known &= came <= longest
    return np.asarray(known & (np.diff(used) - came > _KEPT * alone) & (alone > longest))


def _limits(
    known: Stretches, at: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return since and until when each sample may tell what the thread did: in its stretch.

    Outside of all it is until the next one; where no phase is known there is no limit.
    """
    nothing = np.iinfo(np.int64)
    least = np.full(len(times), nothing.min, dtype=np.int64)
    most = np.full(len(times), nothing.max, dtype=np.int64)
    if len(known.spans) > 1:
        start, end = known.spans.T
        least = np.r_[nothing.min, end][np.searchsorted(end, times, "right")]
        most = np.r_[start, nothing.max][np.searchsorted(start, times, "right")]
        least[at >= 0], most[at >= 0] = start[at[at >= 0]], end[at[at >= 0]]
    return least, most


def _elsewhere(
    rows: pd.DataFrame, known: Stretches, at: NDArray[np.int64]
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and stack of what was seen in others, for stretches without a sample.

    They are parted among these samples, in the order in which those lay in theirs. Of a kind with
    many of them each has some of the samples, so that all together have each as often.
    """
    pools = _pools(rows, known, at)
    seen = np.zeros(len(known.spans), dtype=np.bool_)
    seen[at[at >= 0]] = True
    are_between = known.are_between
    unseen = np.flatnonzero(~seen)
    count = Counter(known.kinds[unseen].tolist())
    for turn, number in enumerate(unseen.tolist()):
        kind, (start, end) = known.kinds[number], known.spans[number].tolist()
        most = _TIMES_AS_LONG * (end - start) if are_between[number] else math.inf
        pool = [stack for _, stack, ns in pools.get(kind, []) if ns <= most]
        if len(pool) >= _FEWEST:
            parts = min(len(pool), max(_MOST_PIECES // count[kind], _FEWEST))
            first = (turn * _GOLDEN) % 1 if parts < len(pool) else 0.0
            chosen = [pool[int((part + first) * len(pool) / parts)] for part in range(parts)]
            edges = [start + (end - start) * part // parts for part in range(parts + 1)]
            yield from zip(edges[:-1], edges[1:], chosen, strict=True)


def _pools(
    rows: pd.DataFrame, known: Stretches, at: NDArray[np.int64]
) -> dict[str, list[tuple[float, str, int]]]:
    """Return for each kind of stretch its samples: how far into one, stack, and its length in ns.

    A sample of a step that was not traced counts wherever the program was at the same line, as one
    of the shortest of these; at a line that is not known otherwise, in all the times between phases
    of the kind that has most of the time.
    """
    times = rows["time_ns"].to_numpy(np.int64)
    stacks = [str(stack) for stack in rows["stack"].astype(object)]
    lines = {stack: _own_frames(stack) for stack in set(stacks)}
    pools: dict[str, list[tuple[float, str, int]]] = {}
    kinds_of: dict[str, dict[str, int]] = {}
    for number in np.flatnonzero(at >= 0):
        kind, (start, end) = str(known.kinds[at[number]]), known.spans[at[number]].tolist()
        part = (int(times[number]) - start) / (end - start)
        pools.setdefault(kind, []).append((part, stacks[number], end - start))
        lengths_of = kinds_of.setdefault(lines[stacks[number]], {})
        lengths_of[kind] = min(lengths_of.get(kind, end - start), end - start)
    lengths = pd.Series(known.spans[:, 1] - known.spans[:, 0])[known.are_between]
    by_kind = lengths.groupby(known.kinds[known.are_between]).sum()
    longest = str(by_kind.idxmax()) if len(by_kind) else ""
    for number in np.flatnonzero((at < 0) & ~rows[IS_SELDOM].to_numpy(np.bool_)):
        stack = stacks[number]
        for kind, length in kinds_of.get(lines[stack], {longest: 0}).items():
            is_phase = kind and not kind.startswith(BETWEEN)
            if is_phase or not _NOT_BETWEEN.search(stack):
                pools.setdefault(kind, []).append((0.5, stack, length))
    return {kind: sorted(pool) for kind, pool in pools.items()}


def _own_frames(stack: str) -> str:
    """Return the frames of a stack that are the program's own."""
    return SEPARATOR.join(frame for frame in stack.split(SEPARATOR) if not is_foreign(frame))


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
    """Frames that are open, from the root, and the columns of all calls."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self.open: list[tuple[int, str]] = []
        self.until = -1

    def add(self, stack: list[str], start_ns: int, end_ns: int) -> None:
        """Keep open the frames that `stack` shows as well, and open the others."""
        # What lies between two samples that are far apart is not known.
        open_names = [name for _, name in self.open] if start_ns == self.until else []
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(open_names, stack, strict=False))
        same = sum(1 for _ in shared)
        self.close(same)
        for name in stack[same:]:
            caller = self.open[-1][0] if self.open else -1
            self.open.append((len(self.columns["name"]), name))
            for column, value in zip(_COLUMNS, (caller, name, start_ns, end_ns), strict=True):
                self.columns[column].append(value)
        self.until = end_ns

    def close(self, left: int = 0) -> None:
        """End the open frames, but for the first `left`, with the last stack that showed them."""
        for number, _ in self.open[left:]:
            self.columns["end_ns"][number] = self.until
        del self.open[left:]
