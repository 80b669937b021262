"""What the host did during given spans: operators and annotations, without their children."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit import calltree, intervals
from profkit.intervals import Intervals

NOTHING = "(no operator)"


def by_name(cpu_ops: pd.DataFrame, spans: Intervals) -> pd.DataFrame:
    """Return how many ns of the union `spans` each operator or annotation ran by itself.

    `cpu_ops` are those of one rank and repeat. Columns name and time_ns, most first.
    """
    mine = intervals.overlap(_spans(cpu_ops), spans)
    above = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    own = mine - calltree.sums(above, mine, len(cpu_ops))
    # Ranges that end on another thread may outlast the one around them.
    rows = pd.DataFrame({"name": cpu_ops["name"].astype(object), "time_ns": own.clip(min=0)})
    sums = rows[rows["time_ns"] > 0].groupby("name").sum().reset_index()
    return sums.sort_values("time_ns", ascending=False, ignore_index=True)


def longest_in(
    tree: pd.DataFrame, above: NDArray[np.int64], spans: Intervals
) -> list[tuple[int, int]]:
    """Return for each of `spans` the row that ran longest in it by itself, and for how many ns.

    `above` is the row around each row of `tree`. Where less ran than did not, the row is -1, and
    the ns those without any.
    """
    start = tree["start_ns"].to_numpy(np.int64)
    end = tree["end_ns"].to_numpy(np.int64)
    return [_longest(start, end, above, span) for span in spans]


def named(rows: pd.DataFrame, places: list[int]) -> list[str]:
    """Return the name of the row at each place, `NOTHING` for -1."""
    names = rows["name"].astype(object).to_numpy()
    return [str(names[place]) if place >= 0 else NOTHING for place in places]


def _longest(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    above: NDArray[np.int64],
    span: NDArray[np.int64],
) -> tuple[int, int]:
    rows = np.flatnonzero((start < span[1]) & (end > span[0]))
    inside = intervals.clip(np.column_stack((start[rows], end[rows])), span.reshape(1, 2))
    free = int(span[1] - span[0]) - intervals.total(intervals.union(inside))
    if not len(rows):
        return -1, free
    mine = inside[:, 1] - inside[:, 0]
    place = np.searchsorted(rows, above[rows]).clip(max=len(rows) - 1)
    # What encloses an operator lasts as long as it does, and so is among the rows.
    place = np.where(rows[place] == above[rows], place, -1)
    own = mine - calltree.sums(place, mine, len(rows))
    best = int(own.argmax())
    return (int(rows[best]), int(own[best])) if own[best] >= free else (-1, free)


def innermost(annotations: pd.DataFrame, spans: Intervals) -> list[str]:
    """Return for each of `spans` the shortest annotation that covers half of it, "" for none."""
    each = _spans(annotations)
    length = each[:, 1] - each[:, 0]
    names = annotations["name"].astype(object).to_numpy()
    found = []
    for span in spans:
        inside = intervals.clip(each, span.reshape(1, 2))
        covers = np.flatnonzero(2 * (inside[:, 1] - inside[:, 0]) >= span[1] - span[0])
        found.append(str(names[covers[length[covers].argmin()]]) if len(covers) else "")
    return found


def _spans(rows: pd.DataFrame) -> Intervals:
    return intervals.intervals(rows["start_ns"], rows["end_ns"])
