"""Calls of Python functions as sampled stacks show them, for recordings without real ones."""

from typing import Any

import numpy as np
import pandas as pd

from profkit.tables import schema
from profkit.tables.tree_paths import SEPARATOR

_LONGEST_GAPS = 5
_COLUMNS = ("call", "caller", "tid", "name", "start_ns", "end_ns")


def sampled_calls(samples: pd.DataFrame) -> pd.DataFrame:
    """Return rows like those of `python_calls`, from the `python_samples` of one rank and repeat.

    A frame lasts from the sample that shows it to the first that does not; the lines are those
    that ran. After a sample that no other follows for long, nothing is known.
    """
    rows = samples.sort_values("time_ns", kind="stable")
    times = rows["time_ns"].to_numpy(np.int64)
    if len(times) <= 1:
        return schema.frame("python_calls")
    usual = int(np.median(np.diff(times)))
    ends = np.minimum(np.append(times[1:], times[-1] + usual), times + _LONGEST_GAPS * usual)
    stacks = [str(stack).split(SEPARATOR) for stack in rows["stack"].astype(object)]
    made = _Calls(tid=int(rows["tid"].iloc[0]))
    for stack, start, end in zip(stacks, times.tolist(), ends.tolist(), strict=True):
        made.add(stack, start, end)
    count = len(made.rows)
    columns: dict[str, list[Any]] = {name: [row[name] for row in made.rows] for name in _COLUMNS}
    columns |= {name: [int(rows[name].iloc[0])] * count for name in ("rank", "repeat")}
    columns["kind"] = ["function"] * count
    calls: pd.DataFrame = schema.table("python_calls", columns).to_pandas()
    return calls


class _Calls:
    """Frames that are open, from the root, and the rows of all calls."""

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.rows: list[dict[str, int | str]] = []
        self.open: list[int] = []
        self.until = -1

    def add(self, stack: list[str], start_ns: int, end_ns: int) -> None:
        """Prolong the open frames that `stack` shows as well, and open the others."""
        same = 0
        # What lies between two samples that are far apart is not known.
        while (
            start_ns == self.until
            and same < min(len(stack), len(self.open))
            and self.rows[self.open[same]]["name"] == stack[same]
        ):
            same += 1
        del self.open[same:]
        for name in stack[same:]:
            caller = self.open[-1] if self.open else -1
            row = {"call": len(self.rows), "caller": caller, "tid": self.tid}
            self.open.append(len(self.rows))
            self.rows.append({**row, "name": name, "start_ns": start_ns, "end_ns": end_ns})
        for number in self.open[:same]:
            self.rows[number]["end_ns"] = end_ns
        self.until = end_ns
