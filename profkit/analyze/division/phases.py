"""Phases of a thread as its trace marks them, and what lies between: no stack reaches beyond."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import spans_of
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

_ORDER = ("data", "forward", "backward", "optimizer")
_WORDS = {"data": "loading", "optimizer": "the optimizer's step"}
_COVERED = 0.5
_NO_PHASE = "Optimizer.zero_grad#"
BETWEEN = "between "


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretches:
    """The time of a thread, cut wherever a phase begins or ends."""

    spans: Intervals
    """Sorted; none overlap."""

    names: NDArray[np.object_]
    """What readers call each: the phase, or the two that it lies between; "" if none is known."""

    kinds: NDArray[np.object_]
    """What tells each from those that do something else in every step."""

    def at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the stretch that holds each of the `times`, -1 for none."""
        if not len(self.spans):
            return np.full(len(times), -1, dtype=np.int64)
        found = np.searchsorted(self.spans[:, 0], times, "right") - 1
        return np.where((found >= 0) & (times < self.spans[found, 1]), found, -1)

    @property
    def are_between(self) -> NDArray[np.bool_]:
        """Whether each lies between phases, as all do where none is known."""
        found = [not name or str(name).startswith(BETWEEN) for name in self.names]
        return np.array(found, dtype=np.bool_)


def stretches(ops: pd.DataFrame) -> Stretches:
    """Return the stretches of one thread, from the first to the last of its `ops`.

    Ranges mark phases; the phase of an operator may be a guess.
    """
    if ops.empty:
        nothing = np.empty(0, dtype=object)
        return Stretches(spans=spans_of(ops), names=nothing, kinds=nothing)
    marks = _outermost(ops)
    found = [str(phase) for phase in marks["phase"].astype(object)]
    whole = int(ops["start_ns"].min()), int(ops["end_ns"].max())
    edges = np.r_[whole[0], spans_of(marks).ravel(), whole[1]]
    phases = [*_neighbour(found[::-1]), *found, *_neighbour(found)]
    names = [_between(*phases[:2]) if found else ""]
    for number in range(1, len(phases) - 1):
        names += [phases[number], _between(*phases[number : number + 2])]
    kinds = [
        name if number % 2 == 0 else " ".join(phases[number // 2 : number // 2 + 3])
        for number, name in enumerate(names)
    ]
    spans = np.column_stack((edges[:-1], edges[1:]))
    length = spans[:, 1] - spans[:, 0]
    # Between two recordings nothing is known, not even the range of a step.
    covered = intervals.overlap(spans, intervals.union(spans_of(ops)))
    kept = (length > 0) & ((covered >= _COVERED * length) | (len(spans) == 1))
    kept_names, kept_kinds = (np.array(texts, dtype=object)[kept] for texts in (names, kinds))
    return Stretches(spans=spans[kept], names=kept_names, kinds=kept_kinds)


def _outermost(ops: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges that mark a phase and lie in no other, in their order."""
    is_mark = (ops["kind"] == "annotation") & (ops["phase"].astype(object).isin(_ORDER))
    marks = ops[is_mark.to_numpy()].sort_values("start_ns", kind="stable")
    reach = marks["end_ns"].cummax().shift(fill_value=np.iinfo(np.int64).min)
    marks = marks[(marks["start_ns"] >= reach).to_numpy()]
    return marks[~marks["name"].astype(str).str.startswith(_NO_PHASE).to_numpy()]


def _neighbour(phases: Sequence[str]) -> list[str]:
    """Return the phase that follows the last one of `phases` where it stands elsewhere."""
    if not phases:
        return [""]
    after = [next_ for own, next_ in pairwise(phases) if own == phases[-1]]
    return [max(after, key=after.count) if after else ""]


def _between(before: str, after: str) -> str:
    """Return what a reader calls the time from one phase to another."""
    if not before or not after:
        return f"{BETWEEN}two phases"
    is_next = _ORDER.index(after) <= _ORDER.index(before)
    first, second = _WORDS.get(before, before), _WORDS.get(after, after)
    if is_next:
        second = "the next batch" if after == "data" else f"the next {second.removeprefix('the ')}"
    return f"{BETWEEN}{first} and {second}"


def inside(place: str) -> str:
    """Return the words for being at a place, which may lie between two phases."""
    return place if place.startswith(BETWEEN) else f"in {place}"
