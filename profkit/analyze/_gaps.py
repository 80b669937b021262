"""Gaps: when a GPU or a stream is idle, and the cause."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

CAUSES = ("host", "blocked", "between", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaps:
    """The gaps of one GPU or stream, in order of time; arrays of one length."""

    spans: Intervals
    before: NDArray[np.int64]
    """Row of `kernels` that ended last before the gap, -1 for none."""
    after: NDArray[np.int64]
    """Row of `kernels` that ends the gap, -1 for none."""

    def __getitem__(self, rows: NDArray[np.bool_]) -> "Gaps":
        """Return the gaps of these `rows`."""
        return Gaps(spans=self.spans[rows], before=self.before[rows], after=self.after[rows])


def gaps(start: NDArray[np.int64], end: NDArray[np.int64], rows: NDArray[np.int64]) -> Gaps:
    """Return the gaps between `rows` of `kernels`, given the times of the whole table."""
    order = rows[np.argsort(start[rows], kind="stable")]
    reach = np.maximum.accumulate(end[order])
    # A kernel that began earlier may end later.
    longest = np.maximum.accumulate(np.where(end[order] == reach, np.arange(len(order)), 0))
    free = start[order[1:]] > reach[:-1]
    return Gaps(
        spans=intervals.intervals(reach[:-1][free], start[order[1:]][free]),
        before=order[longest[:-1][free]],
        after=order[1:][free],
    )


def with_edges(
    inner: Gaps, start: NDArray[np.int64], end: NDArray[np.int64], rows: NDArray[np.int64],
    window: Sequence[int],
) -> Gaps:  # fmt: skip
    """Return `inner` with the gaps before the first and after the last work of `window`."""
    first, last = rows[np.argmin(start[rows])], rows[np.argmax(end[rows])]
    none = np.array([-1])
    added = Gaps(
        spans=np.concatenate(
            ([[window[0], start[first]]], inner.spans, [[end[last], window[1]]])
        ).astype(np.int64),
        before=np.concatenate((none, inner.before, [last])),
        after=np.concatenate(([first], inner.after, none)),
    )
    return added[added.spans[:, 1] > added.spans[:, 0]]


def launched_late(found: Gaps, call_start: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which gaps had begun when the CPU began to launch the kernel that ends them.

    `call_start` is that of the launch of each kernel, -1 where it is not known. Where no kernel
    follows, the CPU launched nothing.
    """
    return (found.after < 0) | (call_start[found.after] > found.spans[:, 0])


def by_cause(
    found: Gaps,
    call_start: NDArray[np.int64],
    call_until: NDArray[np.int64],
    blocked: Intervals,
    short_ns: int,
) -> dict[str, Intervals]:
    """Return by cause the union of the idle time that it explains; causes do not overlap.

    The cause is the host where the launch of the next kernel came after the gap began. In such a
    gap the time while the CPU is `blocked` in a call (a union) is split off, until `call_until`:
    the start of that launch, or its end where it holds the CPU itself, as a pageable copy does.
    Where the launch came in time, gaps under `short_ns` are the GPU's own between two kernels,
    and longer ones have another cause: a dependency on another stream, for example.
    """
    is_late = launched_late(found, call_start)
    host = found.spans[is_late]
    launched = np.where(found.after < 0, found.spans[:, 1], call_until[found.after])[is_late]
    until = np.column_stack((host[:, 0], np.minimum(launched, host[:, 1])))
    held = intervals.intersection(intervals.union(until), blocked)
    length = found.spans[:, 1] - found.spans[:, 0]
    return {
        "host": intervals.difference(intervals.union(host), held),
        "blocked": held,
        "between": intervals.union(found.spans[~is_late & (length < short_ns)]),
        "other": intervals.union(found.spans[~is_late & (length >= short_ns)]),
    }
