"""Ranks one after another on one axis of time, so that intervals of all are worked on at once.

Some thousand events of each of a thousand ranks take longer in a thousand calls than in one.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import intervals as intervals_of
from profkit.analyze.shared.intervals import Intervals, intervals, one_after_another
from profkit.analyze.shared.step_windows import WHERE, extents, filtered, keyed, runs


def fitting(
    tables: Sequence[pd.DataFrame], key: Sequence[str] = WHERE
) -> Iterator[Sequence[pd.DataFrame]]:
    """Yield `tables`: all rows at once, or parts of them by `key` that have room on one axis."""
    found = pd.concat([extents(rows, key) for rows in tables]).groupby([*key])
    first = found["first"].min()
    splits = intervals_of.fitting(first.to_numpy(np.int64), found["last"].max().to_numpy(np.int64))
    if not len(splits):
        yield tables
        return
    for own in np.split(np.arange(len(first)), splits):
        keys = first.index[own]
        yield [rows[pd.MultiIndex.from_frame(rows[[*key]]).isin(keys)] for rows in tables]


class Lanes:
    """The ranks and repeats of some tables, each moved to a stretch of time of its own.

    Or whatever else has another `key` each, as every GPU of every rank.
    """

    def __init__(self, tables: Sequence[pd.DataFrame], key: Sequence[str] = WHERE) -> None:
        """Make room for the rows of `tables`: they have `key`, ``start_ns`` and ``end_ns``."""
        self._key = [*key]
        found = pd.concat([extents(rows, key) for rows in tables]).groupby(self._key)
        first = found["first"].min()
        last = found["last"].max().to_numpy(np.int64)
        moved = one_after_another(first.to_numpy(np.int64), last)
        self._moved = pd.Series(moved, index=first.index)

    def known(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return those of the `rows` that there is room for."""
        begins = runs(rows, self._key)
        has_room = pd.MultiIndex.from_frame(keyed(rows, self._key, begins)).isin(self._moved.index)
        return filtered(rows, np.repeat(has_room, np.diff([*begins, len(rows)])))

    def moves(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return by how much each of the `rows` is moved."""
        begins = runs(rows, self._key)
        of_runs = self._moved.reindex(pd.MultiIndex.from_frame(keyed(rows, self._key, begins)))
        return np.repeat(of_runs.to_numpy(np.int64), np.diff([*begins, len(rows)]))

    def spans(self, rows: pd.DataFrame) -> Intervals:
        """Return the intervals of the `rows`, moved."""
        moves = self.moves(rows)
        return intervals(rows["start_ns"] + moves, rows["end_ns"] + moves)
