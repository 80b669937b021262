"""Length of the launch queue: kernels that the CPU has launched and the GPU has not begun."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A step function: from ``times_ns[i]`` on the queue has ``length[i]`` entries."""

    times_ns: NDArray[np.int64]
    length: NDArray[np.int64]

    def span_ns(self) -> int:
        """Return the time from the first to the last change."""
        return int(self.times_ns[-1] - self.times_ns[0])

    def mean(self) -> float:
        """Return the mean length over time."""
        weights = np.diff(self.times_ns)
        total = int(weights.sum())
        return float((self.length[:-1] * weights).sum() / total) if total else 0.0

    def full(self, capacity: int) -> Intervals:
        """Return when at least `capacity` entries wait, as a union."""
        rows = self.length[:-1] >= capacity
        return intervals.union(
            intervals.intervals(self.times_ns[:-1][rows], self.times_ns[1:][rows])
        )

    def sampled(self, edges_ns: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return mean and largest length between each two of n `edges_ns`, shape (n - 1,)."""
        origin = self.times_ns[0]
        sums = np.r_[0, np.cumsum(self.length[:-1] * np.diff(self.times_ns))]
        at_edges = np.interp(edges_ns - origin, self.times_ns - origin, sums)
        mean = np.diff(at_edges) / np.maximum(np.diff(edges_ns), 1)
        before = np.searchsorted(self.times_ns, edges_ns[:-1], side="right") - 1
        largest = np.where(before >= 0, self.length[before.clip(min=0)], 0)
        position = np.searchsorted(edges_ns, self.times_ns, side="right") - 1
        inside = (position >= 0) & (position < len(largest))
        np.maximum.at(largest, position[inside], self.length[inside])
        return mean, largest


def queue(launched_ns: NDArray[np.int64], begun_ns: NDArray[np.int64]) -> Queue:
    """Return the queue of kernels that were launched and begun at these times, an entry for each.

    As in HTA, an entry counts from the start of the call that launches it.
    """
    # Clocks of CPU and GPU are not exact: nothing can begin before it is launched.
    times = np.concatenate((launched_ns, np.maximum(begun_ns, launched_ns)))
    change = np.repeat(np.array([1, -1]), len(launched_ns))
    order = np.lexsort((-change, times))
    return Queue(times_ns=times[order], length=np.cumsum(change[order]))
