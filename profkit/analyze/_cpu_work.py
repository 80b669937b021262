"""Work of the CPU during given spans: operators and annotations, without their children."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.calltree import Rows
from profkit.analyze.shared.intervals import Intervals

NOTHING = "(no operator)"


def by_name(cpu_ops: pd.DataFrame, spans: Intervals) -> pd.DataFrame:
    """Return the self time of each operator or annotation within the union `spans`.

    `cpu_ops` are those of one rank and repeat. Columns name and time_ns, most first.
    """
    own = intervals.overlap(_spans(cpu_ops), spans)
    own -= calltree.sums(parents(cpu_ops), own, len(cpu_ops))
    # Ranges that end on another thread may outlast their parent: less than 0 is none.
    names = cpu_ops["name"].cat
    time_ns = calltree.sums(
        np.asarray(names.codes, dtype=np.int64), own.clip(min=0, out=own), len(names.categories)
    )
    found = np.flatnonzero(time_ns)
    sums = pd.DataFrame(
        {"name": names.categories.to_numpy(object)[found], "time_ns": time_ns[found]}
    )
    return sums.sort_values("time_ns", ascending=False, ignore_index=True)


def parents(cpu_ops: pd.DataFrame) -> Rows:
    """Return the row of the parent of each operator of one rank and repeat, -1 for none."""
    op, parent = (cpu_ops[name].to_numpy(np.int64) for name in ("op", "parent"))
    return calltree.positions(op, parent)


def longest_in(
    tree: pd.DataFrame, parent: Rows, counted: NDArray[np.bool_], spans: Intervals
) -> list[tuple[int, int]]:
    """Return for each of `spans` the row with the longest self time in it, and that time in ns.

    `parent` is the row of the parent of each row of `tree`; only `counted` rows matter. Where no
    row ran for longer than that, the row is -1, and the time is that without any.
    """
    start = tree["start_ns"].to_numpy(np.int64)
    end = tree["end_ns"].to_numpy(np.int64)
    # A table may have millions of rows, of which few ran in any of the spans.
    near = np.flatnonzero(counted & ran_in(tree, intervals.union(spans)))
    return [_longest(start, end, parent, near, span) for span in spans]


def ran_in(rows: pd.DataFrame, spans: Intervals) -> NDArray[np.bool_]:
    """Tell which `rows` of any table ran in the union `spans`."""
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    # Rows that end before all spans take the last entry, before which none begins.
    until = np.append(spans[:, 1], np.iinfo(np.int64).min)
    return np.concatenate(
        [
            start[block] < until[np.searchsorted(spans[:, 0], end[block]) - 1]
            for block in intervals.blocks(len(rows))
        ]
    )


def names_at(table: pd.DataFrame, rows: list[int]) -> list[str]:
    """Return the name of each of the `rows` of `table`, `NOTHING` for -1."""
    names = table["name"].astype(object).to_numpy()
    return [str(names[row]) if row >= 0 else NOTHING for row in rows]


def _longest(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    parent: Rows,
    near: Rows,
    span: NDArray[np.int64],
) -> tuple[int, int]:
    rows = near[(start[near] < span[1]) & (end[near] > span[0])]
    inside = intervals.clip(np.column_stack((start[rows], end[rows])), span.reshape(1, 2))
    free = int(span[1] - span[0]) - intervals.total(intervals.union(inside))
    if not len(rows):
        return -1, free
    total = inside[:, 1] - inside[:, 0]
    # A parent lasts at least as long as its operator, and so is among the rows.
    position = calltree.positions(rows, parent[rows])
    own = total - calltree.sums(position, total, len(rows))
    best = int(own.argmax())
    return (int(rows[best]), int(own[best])) if own[best] >= free else (-1, free)


def innermost(annotations: pd.DataFrame, spans: Intervals) -> list[str]:
    """Return for each of `spans` the shortest annotation that covers half of it, "" for none."""
    ranges = _spans(annotations)
    length = ranges[:, 1] - ranges[:, 0]
    names = annotations["name"].astype(object).to_numpy()
    found = []
    for span in spans:
        inside = intervals.clip(ranges, span.reshape(1, 2))
        covers = np.flatnonzero(2 * (inside[:, 1] - inside[:, 0]) >= span[1] - span[0])
        found.append(str(names[covers[length[covers].argmin()]]) if len(covers) else "")
    return found


def _spans(rows: pd.DataFrame) -> Intervals:
    return intervals.intervals(rows["start_ns"], rows["end_ns"])
