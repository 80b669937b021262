"""Ranks one after another on one axis of time, so that intervals of all are worked on at once.

Some thousand events of each of a thousand ranks take longer in a thousand calls than in one.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.intervals import Intervals, intervals
from profkit.analyze.shared.step_windows import WHERE, extents, keyed, runs
from profkit.core.errors import InputError

_LONGEST_NS = 2**62


class Lanes:
    """The ranks and repeats of some tables, each moved to a stretch of time of its own."""

    def __init__(self, tables: Sequence[pd.DataFrame]) -> None:
        """Make room for what lies in the `tables`, with the columns of `extents`."""
        found = pd.concat([extents(rows) for rows in tables]).groupby(WHERE)
        first = found["first"].min()
        length = (found["last"].max() - first + 1).to_numpy(np.int64)
        if length.sum(dtype=np.float64) > _LONGEST_NS:
            raise InputError(
                "the times of the ranks together span more than a century",
                hint="some are damaged: leave out the files of ranks whose steps make no sense",
            )
        moved = np.r_[0, np.cumsum(length)][: len(length)] - first.to_numpy(np.int64)
        self._moved = pd.Series(moved, index=first.index)

    def moves(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return by how much each of the `rows` is moved."""
        begins = runs(rows, WHERE)
        of_runs = self._moved.reindex(pd.MultiIndex.from_frame(keyed(rows, WHERE, begins)))
        return np.repeat(of_runs.to_numpy(np.int64), np.diff([*begins, len(rows)]))

    def spans(self, rows: pd.DataFrame) -> Intervals:
        """Return the intervals of the `rows`, moved."""
        moves = self.moves(rows)
        return intervals(rows["start_ns"] + moves, rows["end_ns"] + moves)
