"""Where one rank fell behind another: the last row that both had, before the gap opened."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.shared.step_windows import MARKS

_SAME = ["key", "occurrence", "count"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Where on its timeline the late rank fell behind."""

    running: str
    """The innermost row that ran in the middle of the gap; "" if none but a step's mark did."""

    after: str
    """The last row that began in time; "" if none did: the rank was behind from the start."""


def fell_behind(
    late: pd.DataFrame, other: pd.DataFrame, *, late_ns: int, ahead_ns: int = 0
) -> Cause | None:
    """Compare two ranks' rows before a collective, in the order of their `start_ns`.

    Rows have a `name`, an `end_ns`, and a `key` that is the same for the same thing on any rank.

    `late_ns` is the lateness in the end, `ahead_ns` how far the late rank's clock is ahead. The
    gap opened after the last common row at which less than half of the lateness was there. Rows
    are common if both ranks have equally many of their key. None if no row is.
    """
    pairs = _common(late, other)
    if pairs.empty:
        return None
    delay = (pairs["start_ns"] - ahead_ns - pairs["other_ns"]).to_numpy(np.int64)
    in_time = np.flatnonzero(2 * delay < late_ns)
    if not len(in_time):
        return Cause(running="", after="")
    at = int(in_time[-1])
    starts = pairs["start_ns"].to_numpy(np.int64)
    # After the last common row the gap reaches to the collective, which is not a row.
    until = starts[at + 1] if at + 1 < len(starts) else starts[at] + late_ns
    middle = int(starts[at] + (until - starts[at]) // 2)
    around = late[((late["start_ns"] <= middle) & (late["end_ns"] > middle)).to_numpy()]
    names = map(str, around.sort_values("start_ns", kind="stable")["name"])
    innermost = [name for name in names if not name.startswith(MARKS)][-1:]
    return Cause(running="".join(innermost), after=str(pairs["name"].iloc[at]))


def _common(late: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that correspond, in the late rank's order, with both starts."""
    there = _numbered(other)[[*_SAME, "start_ns"]].rename(columns={"start_ns": "other_ns"})
    both = _numbered(late).merge(there, on=_SAME)
    return both.sort_values("start_ns", kind="stable", ignore_index=True)


def _numbered(rows: pd.DataFrame) -> pd.DataFrame:
    by_key = rows.groupby("key")
    return rows.assign(occurrence=by_key.cumcount(), count=by_key["key"].transform("size"))
