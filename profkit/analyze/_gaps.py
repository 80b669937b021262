"""Gaps: when a device or a stream has nothing to do, and what it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals

CAUSES = ("host", "synchronisation", "between", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaps:
    """The gaps of one device or stream, in order of time; arrays of one length."""

    spans: Intervals
    before: NDArray[np.int64]
    """Row of `kernels` that ended last before the gap, -1 for none."""
    after: NDArray[np.int64]
    """Row of `kernels` that ends the gap, -1 for none."""

    def __getitem__(self, rows: NDArray[np.bool_]) -> "Gaps":
        """Return the gaps of these `rows`."""
        return Gaps(spans=self.spans[rows], before=self.before[rows], after=self.after[rows])


def gaps(start: NDArray[np.int64], end: NDArray[np.int64], rows: NDArray[np.int64]) -> Gaps:
    """Return the gaps between `rows` of device work, which has these times over the whole table."""
    order = rows[np.argsort(start[rows], kind="stable")]
    reach = np.maximum.accumulate(end[order])
    # Work that began earlier may outlast what began later.
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


def late(found: Gaps, call_start: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which gaps were still open when the host began to launch what ends them.

    `call_start` is that of the launch of each kernel, -1 where it is not known. Where nothing
    follows, the host launched nothing.
    """
    return (found.after < 0) | (call_start[found.after] > found.spans[:, 0])


def by_cause(
    found: Gaps, call_start: NDArray[np.int64], blocked: Intervals, short_ns: int
) -> dict[str, Intervals]:
    """Return the union of what each cause explains; the causes do not overlap.

    A gap is the host's where the launch of the next work came after it began. In such a gap
    what passes until that launch while the host is `blocked` (a union) is synchronisation.
    Where the launch came in time, gaps under `short_ns` are what the device needs between two
    kernels, and longer ones have another cause: a dependency on another stream, for example.
    """
    waits = late(found, call_start)
    host = found.spans[waits]
    launched = np.where(found.after < 0, found.spans[:, 1], call_start[found.after])[waits]
    until = np.column_stack((host[:, 0], np.minimum(launched, host[:, 1])))
    synchronised = intervals.intersection(intervals.union(until), blocked)
    length = found.spans[:, 1] - found.spans[:, 0]
    return {
        "host": intervals.difference(intervals.union(host), synchronised),
        "synchronisation": synchronised,
        "between": intervals.union(found.spans[~waits & (length < short_ns)]),
        "other": intervals.union(found.spans[~waits & (length >= short_ns)]),
    }
