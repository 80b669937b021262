"""Arithmetic on half-open intervals [start_ns, end_ns), as int64 arrays of shape (n, 2).

A *union* is sorted, disjoint and without empty intervals, as `union` returns it. Functions that
say so need unions; the others take intervals in any order, overlapping or empty. All times are
ns on one clock. Nothing here changes its arguments.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

Intervals = NDArray[np.int64]
"""Intervals in ns, shape (n, 2): column 0 holds starts, column 1 ends."""

_LONGEST_NS = 2**61
_EVER = np.iinfo(np.int64)
_ROWS_AT_ONCE = 1 << 18
"""Rows that are worked on at a time: what is in between takes several times their memory."""


def blocks(count: int) -> Iterator[slice]:
    """Yield `count` rows some at a time: at least one block, empty where there is no row."""
    return (slice(at, at + _ROWS_AT_ONCE) for at in range(0, max(count, 1), _ROWS_AT_ONCE))


def intervals(start_ns: ArrayLike, end_ns: ArrayLike) -> Intervals:
    """Return intervals of shape (n, 2) from n starts and n ends."""
    return np.column_stack(
        (np.asarray(start_ns, dtype=np.int64), np.asarray(end_ns, dtype=np.int64))
    )


def nothing() -> Intervals:
    """Return no intervals: shape (0, 2)."""
    return np.empty((0, 2), dtype=np.int64)


def union(spans: Intervals) -> Intervals:
    """Return the union of `spans`; intervals that touch become one."""
    if len(spans) <= _ROWS_AT_ONCE or _is_union(spans):
        return _union(spans)
    # Of a table in the order of time little is left of each block.
    found = np.concatenate([_union(spans[rows]) for rows in blocks(len(spans))])
    if not _is_sorted(found):
        edges = np.unique(found[::_ROWS_AT_ONCE, 0])
        place = np.searchsorted(edges, found[:, 0], side="right")
        found = np.concatenate([_union(found[place == at]) for at in range(len(edges) + 1)])
    return _union(found)


def _is_sorted(spans: Intervals) -> bool:
    return not (spans[1:, 0] < spans[:-1, 0]).any()


def _is_union(spans: Intervals) -> bool:
    filled = (spans[:, 1] > spans[:, 0]).all()
    return bool(filled and (spans[1:, 0] > spans[:-1, 1]).all())


def _union(spans: Intervals) -> Intervals:
    if not len(spans) or _is_union(spans):
        return spans
    filled = spans[:, 1] > spans[:, 0]
    spans = spans if filled.all() else spans[filled]
    if not len(spans):
        return nothing()
    if not _is_sorted(spans):
        spans = spans[np.argsort(spans[:, 0], kind="stable")]
    # An early interval may outlast those after it: compare with the latest end so far.
    start, reach = spans[:, 0], np.maximum.accumulate(spans[:, 1])
    gaps = np.flatnonzero(start[1:] > reach[:-1])
    found = np.empty((len(gaps) + 1, 2), dtype=np.int64)
    found[0, 0], found[-1, 1] = start[0], reach[-1]
    found[1:, 0], found[:-1, 1] = start[gaps + 1], reach[gaps]
    return found


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Return the intersection of two unions, as a union. O(n log m) for n in the smaller one."""
    few, many = (left, right) if len(left) < len(right) else (right, left)
    if not len(few):
        return nothing()
    if len(many) <= _ROWS_AT_ONCE:
        return _intersection(few, many)
    found = [_intersection(_near(few, many[rows]), many[rows]) for rows in blocks(len(many))]
    return np.concatenate(found)


def _near(spans: Intervals, others: Intervals) -> Intervals:
    """Return those of a union that are not before or after all of another one."""
    first = np.searchsorted(spans[:, 1], others[0, 0], side="right")
    return spans[first : np.searchsorted(spans[:, 0], others[-1, 1], side="left")]


def _intersection(few: Intervals, many: Intervals) -> Intervals:
    # Each of `few` overlaps a run of `many`, from the first that ends after it begins.
    first = np.searchsorted(many[:, 1], few[:, 0], side="right")
    count = np.searchsorted(many[:, 0], few[:, 1], side="left") - first
    repeated = np.repeat(few, count, axis=0)
    position = np.arange(len(repeated)) + np.repeat(first - np.cumsum(count) + count, count)
    return clip(many[position], repeated)


def difference(left: Intervals, right: Intervals) -> Intervals:
    """Return the union `left` without the union `right`, as a union."""
    if not len(right):
        return left
    outside = np.empty(right.size + 2, dtype=np.int64)
    outside[0], outside[-1] = _EVER.min, _EVER.max
    outside[1:-1] = right.ravel()
    return intersection(left, outside.reshape(-1, 2))


def total(spans: Intervals) -> int:
    """Return the sum of lengths in ns: for a union, the time that it covers."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def covered(spans: Intervals, groups: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return for each of `count` groups how many ns its `spans` cover together."""
    found = np.zeros(count, dtype=np.int64)
    order = np.lexsort((spans[:, 0], groups))
    start, end, group = spans[order, 0], spans[order, 1], groups[order]
    if not len(group):
        return found
    begins = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    first, last = start[begins], np.maximum.reduceat(end, begins)
    sizes = np.diff(np.r_[begins, len(group)])
    for part in np.split(np.arange(len(begins)), fitting(first, last)):
        rows = slice(begins[part[0]], begins[part[-1]] + sizes[part[-1]])
        moved = np.repeat(one_after_another(first[part], last[part]), sizes[part])
        reach = np.maximum.accumulate(end[rows] + moved)
        free = np.maximum(start[rows] + moved, np.r_[np.iinfo(np.int64).min, reach[:-1]])
        np.add.at(found, group[rows], np.maximum(end[rows] + moved - free, 0))
    return found


def fitting(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where spans from `first` to `last` have to be split, so that parts fit on one axis.

    Nowhere, unless some are damaged: times of an epoch beside such that begin with 0.
    """
    reach = np.cumsum(np.maximum(last - first, 0) + 1, dtype=np.float64)
    return np.flatnonzero(np.diff(np.floor(reach / _LONGEST_NS))) + 1


def one_after_another(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return by how much to move each span from `first` to `last`, so that none meets another.

    They must be as many as `fitting` puts together.
    """
    length = np.maximum(last - first, 0) + 1
    begins: NDArray[np.int64] = np.r_[0, np.cumsum(length)][: len(length)]
    return begins - first


def clip(spans: Intervals, windows: Intervals) -> Intervals:
    """Cut each of n `spans` to the window of its row (or to the only one), empty if outside."""
    start = np.maximum(spans[:, 0], windows[:, 0])
    return np.column_stack((start, np.maximum(start, np.minimum(spans[:, 1], windows[:, 1]))))


def overlap(windows: Intervals, covered: Intervals) -> NDArray[np.int64]:
    """Return for each of n `windows` how many ns of it the union `covered` covers, shape (n,).

    Windows may overlap one another. O((n + m) log m) for m intervals in the union.
    """
    found = covered_before(windows[:, 1], covered)
    found -= covered_before(windows[:, 0], covered)
    return found


def covered_before(times_ns: NDArray[np.int64], covered: Intervals) -> NDArray[np.int64]:
    """Return for each instant how many ns the union `covered` covers before it, same shape."""
    found = np.zeros(len(times_ns), dtype=np.int64)
    if not len(covered):
        return found
    before = np.zeros(len(covered) + 1, dtype=np.int64)
    np.cumsum(covered[:, 1] - covered[:, 0], out=before[1:])
    for rows in blocks(len(times_ns)):
        begun = np.searchsorted(covered[:, 0], times_ns[rows], side="right")
        last_end = covered[np.maximum(begun - 1, 0), 1]
        unfinished = np.where(begun > 0, np.maximum(last_end - times_ns[rows], 0), 0)
        found[rows] = before[begun] - unfinished
    return found


def contains(covered: Intervals, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each instant whether it lies in the union `covered`, shape of `times_ns`."""
    found = np.zeros(len(times_ns), dtype=np.bool_)
    if not len(covered):
        return found
    for rows in blocks(len(times_ns)):
        begun = np.searchsorted(covered[:, 0], times_ns[rows], side="right")
        found[rows] = (begun > 0) & (times_ns[rows] < covered[np.maximum(begun - 1, 0), 1])
    return found
