"""Which slices of CPU threads there is room for in a step, before all of its rows are in memory."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.tracks.shown_ranks import ShownRank

_WITHOUT_ROLE = "python_calls"
"""Calls of a thread are shown only if it has operators or runtime calls as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The room for slices of CPU threads in a window of the common clock."""

    least_ns: int = 0
    """How long those are that there may be room for."""

    left_out: int = 0
    """How many are shorter."""

    longest_ns: int = 0
    """The longest of these; 0 if there are none."""


def room_for(  # noqa: PLR0913, PLR0917 (what is looked at)
    tables: Mapping[str, LargeTable],
    span: tuple[int, int],
    repeat: int,
    shown: Sequence[ShownRank],
    most: int,
    window: tuple[int, int],
) -> Room:
    """Return the room for `most` slices of the `tables` of calls in a `window`, all of the `span`.

    There is enough, without looking, where the window has few calls if all of it has equally many.
    """
    offsets = {one.rank: one.offset_ns for one in shown}
    counts = (group for table in tables.values() for group in table.groups())
    rows = sum(group.get(rank, 0) for group in counts for rank in offsets)
    if rows * (window[1] - window[0]) <= most * (span[1] - span[0]):
        return Room()
    threads: defaultdict[int, set[int]] = defaultdict(set)
    lengths = [np.empty(0, dtype=np.int64)]
    for name, table in tables.items():
        narrow = table.narrowed(["rank", "repeat", "tid", "start_ns", "end_ns"])
        for portion in narrow.only(offsets).portions():
            calls = portion[(portion["repeat"] == repeat).to_numpy()]
            for rank, offset_ns in offsets.items():
                own = calls[(calls["rank"] == rank).to_numpy()]
                if name != _WITHOUT_ROLE:
                    threads[rank].update(pd.unique(own["tid"]).tolist())
                else:
                    own = own[own["tid"].isin([*threads[rank]]).to_numpy()]
                lengths.append(_lengths(own, (window[0] + offset_ns, window[1] + offset_ns)))
    return _room(np.concatenate(lengths), most)


def _lengths(calls: pd.DataFrame, window: tuple[int, int]) -> NDArray[np.int64]:
    """Return how long the calls take that are in a window of their own clock."""
    start, end = (calls[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    return np.asarray((end - start)[(start < window[1]) & (end > window[0])])


def _room(lengths: NDArray[np.int64], most: int) -> Room:
    if len(lengths) <= most:
        return Room()
    lengths.partition(len(lengths) - most)
    least_ns = int(lengths[len(lengths) - most])
    short = lengths[lengths < least_ns]
    return Room(least_ns=least_ns, left_out=len(short), longest_ns=int(short.max(initial=0)))
