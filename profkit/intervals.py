"""Arithmetic on half-open intervals [start_ns, end_ns), as int64 arrays of shape (n, 2).

A *union* is sorted, disjoint and without empty intervals: what `union` returns. Functions that
say so need unions; the others take intervals in any order, overlapping or empty. All times are
ns on one clock. Nothing here changes its arguments.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Intervals = NDArray[np.int64]
"""Intervals in ns, shape (n, 2): column 0 holds starts, column 1 ends."""


def intervals(start_ns: ArrayLike, end_ns: ArrayLike) -> Intervals:
    """Return intervals of shape (n, 2) from n starts and n ends."""
    return np.column_stack(
        (np.asarray(start_ns, dtype=np.int64), np.asarray(end_ns, dtype=np.int64))
    )


def nothing() -> Intervals:
    """Return no intervals: shape (0, 2)."""
    return np.empty((0, 2), dtype=np.int64)


def union(spans: Intervals) -> Intervals:
    """Return what at least one of `spans` covers, as a union; intervals that touch become one."""
    kept = spans[spans[:, 1] > spans[:, 0]]
    if not len(kept):
        return nothing()
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    # An early interval may outlast those after it: what counts is how far any has reached.
    reach = np.maximum.accumulate(kept[:, 1])
    first = np.flatnonzero(np.r_[True, kept[1:, 0] > reach[:-1]])
    last = np.r_[first[1:], len(kept)] - 1
    return np.column_stack((kept[first, 0], reach[last]))


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Return what both unions cover, as a union."""
    edges, in_left, in_right = _pieces(left, right)
    return _runs(edges, in_left & in_right)


def difference(left: Intervals, right: Intervals) -> Intervals:
    """Return what the union `left` covers and the union `right` does not, as a union."""
    edges, in_left, in_right = _pieces(left, right)
    return _runs(edges, in_left & ~in_right)


def total(spans: Intervals) -> int:
    """Return the sum of lengths in ns: for a union, the time that it covers."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def clip(spans: Intervals, windows: Intervals) -> Intervals:
    """Cut each of n `spans` to the window of its row (or to the only one), empty if outside."""
    start = np.maximum(spans[:, 0], windows[:, 0])
    return np.column_stack((start, np.maximum(start, np.minimum(spans[:, 1], windows[:, 1]))))


def overlap(windows: Intervals, covered: Intervals) -> NDArray[np.int64]:
    """Return for each of n `windows` how many ns of it the union `covered` covers, shape (n,).

    Windows may overlap one another. O((n + m) log m) for m intervals in the union.
    """
    return covered_before(windows[:, 1], covered) - covered_before(windows[:, 0], covered)


def covered_before(times_ns: NDArray[np.int64], covered: Intervals) -> NDArray[np.int64]:
    """Return for each instant how many ns the union `covered` covers before it, same shape."""
    if not len(covered):
        return np.zeros(len(times_ns), dtype=np.int64)
    before = np.r_[0, np.cumsum(covered[:, 1] - covered[:, 0])]
    begun = np.searchsorted(covered[:, 0], times_ns, side="right")
    last_end = covered[np.maximum(begun - 1, 0), 1]
    unfinished = np.where(begun > 0, np.maximum(last_end - times_ns, 0), 0)
    return np.asarray(before[begun] - unfinished, dtype=np.int64)


def contains(covered: Intervals, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each instant whether it lies in the union `covered`, shape of `times_ns`."""
    if not len(covered):
        return np.zeros(len(times_ns), dtype=np.bool_)
    begun = np.searchsorted(covered[:, 0], times_ns, side="right")
    return np.asarray((begun > 0) & (times_ns < covered[np.maximum(begun - 1, 0), 1]))


def _pieces(
    left: Intervals, right: Intervals
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Cut time at every edge of either union and tell for each piece which of them cover it."""
    # Two sorted runs, which a stable sort merges; np.unique would hash, 20 times as slow.
    edges = np.sort(np.concatenate((left.ravel(), right.ravel())), kind="stable")
    edges = edges[np.diff(edges, prepend=edges[:1] - 1) > 0]
    return edges, contains(left, edges[:-1]), contains(right, edges[:-1])


def _runs(edges: NDArray[np.int64], kept: NDArray[np.bool_]) -> Intervals:
    """Join neighbouring pieces that are kept; piece i is [edges[i], edges[i + 1])."""
    changes = np.diff(np.r_[False, kept, False].astype(np.int8))
    return np.column_stack((edges[:-1][changes[:-1] == 1], edges[1:][changes[1:] == -1]))
