"""What the host did during given spans: operators and annotations, without their children."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.calltree import Rows
from profkit.analyze.shared.intervals import Intervals

NOTHING = "(no operator)"


def by_name(cpu_ops: pd.DataFrame, spans: Intervals) -> pd.DataFrame:
    """Return how many ns of the union `spans` each operator or annotation ran by itself.

    `cpu_ops` are those of one rank and repeat. Columns name and time_ns, most first.
    """
    mine = intervals.overlap(_spans(cpu_ops), spans)
    own = mine - calltree.sums(above(cpu_ops), mine, len(cpu_ops))
    # Ranges that end on another thread may outlast the one around them: less than 0 is none.
    kept = own > 0
    rows = pd.DataFrame({"name": cpu_ops["name"][kept].astype(object), "time_ns": own[kept]})
    sums = rows.groupby("name").sum().reset_index()
    return sums.sort_values("time_ns", ascending=False, ignore_index=True)


def above(cpu_ops: pd.DataFrame) -> Rows:
    """Return the row around each of the operators of one rank and repeat, -1 for none."""
    op, parent = (cpu_ops[name].to_numpy(np.int64) for name in ("op", "parent"))
    return calltree.places(op, parent)


def longest_in(
    tree: pd.DataFrame, around: Rows, counted: NDArray[np.bool_], spans: Intervals
) -> list[tuple[int, int]]:
    """Return for each of `spans` the row that ran longest in it by itself, and for how many ns.

    `around` is the row around each row of `tree`; only those `counted` matter. Where less ran than
    did not, the row is -1, and the ns those without any.
    """
    start = tree["start_ns"].to_numpy(np.int64)
    end = tree["end_ns"].to_numpy(np.int64)
    # A table may have millions of rows, of which few ran in any of the spans.
    merged = intervals.union(spans)
    # Rows that end before all spans take the last entry, before which none begins.
    until = np.append(merged[:, 1], np.iinfo(np.int64).min)
    near = np.flatnonzero(counted & (start < until[np.searchsorted(merged[:, 0], end) - 1]))
    return [_longest(start, end, around, near, span) for span in spans]


def named(rows: pd.DataFrame, places: list[int]) -> list[str]:
    """Return the name of the row at each place, `NOTHING` for -1."""
    names = rows["name"].astype(object).to_numpy()
    return [str(names[place]) if place >= 0 else NOTHING for place in places]


def _longest(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    around: Rows,
    near: Rows,
    span: NDArray[np.int64],
) -> tuple[int, int]:
    rows = near[(start[near] < span[1]) & (end[near] > span[0])]
    inside = intervals.clip(np.column_stack((start[rows], end[rows])), span.reshape(1, 2))
    free = int(span[1] - span[0]) - intervals.total(intervals.union(inside))
    if not len(rows):
        return -1, free
    mine = inside[:, 1] - inside[:, 0]
    # What encloses an operator lasts as long as it does, and so is among the rows.
    place = calltree.places(rows, around[rows])
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
