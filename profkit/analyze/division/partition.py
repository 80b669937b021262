"""A partition of time: spans are taken from what is left, so that nothing is counted twice."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.intervals import Intervals


class Partition:
    """Time that is divided among causes, by id; what is `left` belongs to none so far."""

    def __init__(self, whole: Intervals) -> None:
        self.left = intervals.union(whole)
        self.parts: dict[str, list[Intervals]] = {}
        self._spans: dict[str, Intervals] = {}

    def take(self, cause: str, spans: Intervals) -> Intervals:
        """Give `cause` what is left of `spans`, in any order; return that, a union."""
        taken = intervals.intersection(self.left, intervals.union(spans))
        return self.give(cause, taken)

    def give(self, cause: str, taken: Intervals) -> Intervals:
        """Give `cause` the union `taken`, all of which is left."""
        if len(taken):
            self.left = intervals.difference(self.left, taken)
            self.parts.setdefault(cause, []).append(taken)
            self._spans.pop(cause, None)
        return taken

    def spans(self, cause: str) -> Intervals:
        """Return the union that `cause` has."""
        if cause not in self._spans:
            taken = self.parts.get(cause) or [intervals.nothing()]
            self._spans[cause] = (
                taken[0] if len(taken) == 1 else intervals.union(np.concatenate(taken))
            )
        return self._spans[cause]

    def times(self, windows: Intervals) -> dict[str, NDArray[np.int64]]:
        """Return the time in ns of each cause in each of `windows`, which do not overlap."""
        return {cause: intervals.overlap(windows, self.spans(cause)) for cause in self.parts}


def spans_of(rows: pd.DataFrame, which: NDArray[Any] | slice = slice(None)) -> Intervals:
    """Return the intervals of the rows of any table, or of `which` of them."""
    start, end = (rows[name].to_numpy(np.int64)[which] for name in ("start_ns", "end_ns"))
    return intervals.intervals(start, end)


def union_of_rows(rows: pd.DataFrame, which: NDArray[np.bool_]) -> Intervals:
    """Return the union of the intervals of `which` rows of any table."""
    if not which.any():
        return intervals.nothing()
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    found = [
        intervals.union(intervals.intervals(start[block][which[block]], end[block][which[block]]))
        for block in intervals.blocks(len(rows))
    ]
    return found[0] if len(found) == 1 else intervals.union(np.concatenate(found))


def alone(spans: Intervals) -> Intervals:
    """Cut `spans` so that each instant belongs to the first of them that began; none is longer."""
    is_sorted = not (spans[1:, 0] < spans[:-1, 0]).any()
    order = slice(None) if is_sorted else np.argsort(spans[:, 0], kind="stable")
    cut = spans[order].copy()
    start, end = cut.T
    before = np.maximum.accumulate(end[:-1])
    np.maximum(end, start, out=end)
    np.maximum(start[1:], before, out=start[1:])
    np.minimum(start, end, out=start)
    if is_sorted:
        return cut
    found = np.empty_like(spans)
    found[order] = cut
    return found


def crossing(spans: Intervals) -> NDArray[np.bool_]:
    """Tell which of `spans` begin in another one and end after it, so that none encloses both."""
    found = np.zeros(len(spans), dtype=np.bool_)
    open_ends: list[int] = []
    for row in np.lexsort((-spans[:, 1], spans[:, 0])).tolist():
        start, end = spans[row].tolist()
        while open_ends and open_ends[-1] < end:
            found[row] |= open_ends.pop() > start
        open_ends.append(end)
    return found


def innermost_time(spans: Intervals, parent: calltree.Rows, within: Intervals) -> NDArray[np.int64]:
    """Return how long each of `spans`, a tree by `parent`, is the innermost one `within` a union.

    Where ranges that end on another thread outlast their parent, it is 0 for that.
    """
    return without_inner(intervals.overlap(spans, within), parent)


def without_inner(own: NDArray[np.int64], parent: calltree.Rows) -> NDArray[np.int64]:
    """Take from the time of each row that of the rows right below it, in place; none gets less."""
    own -= calltree.sums(parent, own, len(own))
    return np.asarray(np.maximum(own, 0, out=own))
