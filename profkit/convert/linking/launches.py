"""Calls of the runtime and the driver: the operator around each, and the work that it launched."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit.convert.columns.on_disk import Columns, DiskColumn, slices
from profkit.convert.linking.gathered import Gathered
from profkit.convert.linking.operators import Operators
from profkit.convert.linking.ordered import Ordered, first_with, ranges
from profkit.convert.linking.steps import Steps
from profkit.convert.linking.windows import threads_of

_FEWEST_CALLS = 100
_MOST_NUMBERS = 50
"""For each call that is recorded: 3 to 18 in whole files."""


@dataclass(frozen=True, kw_only=True)
class Launches:
    """The calls of one recording; a row is one as recorded."""

    gathered: Gathered
    operators: Operators
    steps: Steps

    @cached_property
    def recorded(self) -> Columns:
        """Calls as they were recorded."""
        return self.gathered.columns("runtime_calls")

    @cached_property
    def op(self) -> DiskColumn:
        """Index in `cpu_ops` of the operator around each row."""
        first, count = self.operators.recorded.count, self.recorded.count
        rows = (first + np.arange(part.start, part.stop) for part in slices(count))
        return DiskColumn.of(self.recorded.spill, count, map(self.operators.around, rows))

    @cached_property
    def step(self) -> DiskColumn:
        """Step of each row."""
        return self.steps.of(self.recorded)

    def of(self, work: Ordered) -> DiskColumn:
        """Return the row of the call that launched each piece of `work`; -1 if unknown."""
        return first_with(self.recorded, "correlation", work.column("correlation"))

    def shared_correlations(self) -> int:
        """Return how many correlation ids several processes use, as in traces that were merged."""
        calls = self.recorded
        if self._processes < 2:  # noqa: PLR2004 - of almost every trace
            return 0
        shared = 0
        for low, high in ranges(calls.each("correlation")):
            pairs = (np.stack([part["correlation"], part["pid"]]) for part in calls.parts())
            found = [pair[:, (pair[0] >= max(low, 1)) & (pair[0] < high)] for pair in pairs]
            ids = np.unique(np.concatenate(found, axis=1), axis=1)[0]
            shared += len(np.unique(ids[1:][ids[1:] == ids[:-1]]))
        return shared

    def repeated_correlations(self) -> int:
        """Return how many calls of a single process have the correlation id of another one."""
        if self._processes != 1:
            return 0
        ids = np.sort(self.recorded["correlation"])
        return int(((ids[1:] == ids[:-1]) & (ids[1:] > 0)).sum())

    def thinned(self) -> int:
        """Return how many calls a file has that is only a small part of what was recorded, else 0.

        Each call has the next number, and calls that nothing is known of take most of them.
        """
        if self._processes != 1 or self.recorded.count < _FEWEST_CALLS:
            return 0
        ids = self.recorded["correlation"]
        ids = ids[ids > 0]
        is_thin = len(ids) and len(ids) * _MOST_NUMBERS < ids.max() - ids.min()
        return len(ids) if is_thin else 0

    @cached_property
    def _processes(self) -> int:
        return len(threads_of([self.recorded]).pids)
