"""Windows of steps on the GPU.

The CPU marks the end of a step while the GPU still works on it. So a window lasts until the last
kernel launched in the step is done, and the next begins there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.result import Abstention

WHERE = ["rank", "repeat"]
_NEVER = np.iinfo(np.int64).min


def step_windows(
    steps: pd.DataFrame, kernels: pd.DataFrame, skip_first: int
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return rank, repeat, step, start_ns and end_ns of the steps that count, and abstentions.

    The first `skip_first` steps are left out as long as others remain. Where no step is known
    there is one window for each rank and repeat: all of its kernels, as step -1.
    """
    ranks = extents(kernels)
    known = steps.merge(ranks.reset_index(), on=WHERE)
    known = known[(known["start_ns"] < known["last"]) & (known["end_ns"] > known["first"])]
    columns = [*WHERE, "step", "start_ns", "end_ns"]
    if len(known):
        windows = until_gpu_done(known, kernels)[columns]
        counted = windows[windows["step"] >= skip_first]
        kept = counted if len(counted) else windows
        return kept.reset_index(drop=True), _without_steps(ranks.index, kept)
    whole = ranks.reset_index().rename(columns={"first": "start_ns", "last": "end_ns"})
    reason = "no step was marked" if steps.empty else "the steps are those of another capture"
    missing = Abstention(
        what="single steps", reason=f"{reason}: the numbers are those of all that was recorded"
    )
    return whole.assign(step=-1)[columns], (missing,)


def extents(work: pd.DataFrame, key: Sequence[str] = WHERE) -> pd.DataFrame:
    """Return the first start and the last end of `work` by `key`: first and last."""
    begins = runs(work, key)
    first = np.minimum.reduceat(work["start_ns"].to_numpy(np.int64), begins)
    last = np.maximum.reduceat(work["end_ns"].to_numpy(np.int64), begins)
    by_rank = keyed(work, key, begins).assign(first=first, last=last).groupby([*key])
    # Two calls instead of `agg`, which takes five times as long.
    return pd.DataFrame({"first": by_rank["first"].min(), "last": by_rank["last"].max()})


def last_ends(rows: pd.DataFrame, counted: NDArray[np.bool_] | None = None) -> "pd.Series[int]":
    """Return when the last of the `counted` rows ends, by rank, repeat and step with such rows."""
    key = [*WHERE, "step"]
    begins = runs(rows, key)
    ends = rows["end_ns"].to_numpy(np.int64)
    ends = ends if counted is None else np.where(counted, ends, _NEVER)
    found = keyed(rows, key, begins).assign(end_ns=np.maximum.reduceat(ends, begins))
    return found[(found["end_ns"] > _NEVER).to_numpy()].groupby(key)["end_ns"].max()


def runs(rows: pd.DataFrame, key: Sequence[str]) -> NDArray[np.int64]:
    """Return where each run of rows with the same `key` begins.

    Tables are ordered by rank, and nearly so by step: a group has few runs, and to group these
    takes a fraction of the time and memory that grouping all rows does.
    """
    begins = np.zeros(len(rows), dtype=np.bool_)
    begins[:1] = True
    for name in key:
        values = rows[name].to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(begins)


def keyed(rows: pd.DataFrame, key: Sequence[str], begins: NDArray[np.int64]) -> pd.DataFrame:
    """Return the `key` of the rows where runs begin."""
    # Column by column: several together are copied whole first.
    return pd.DataFrame({name: rows[name].to_numpy()[begins] for name in key})


def of_repeat(rows: pd.DataFrame, where: tuple[Any, ...]) -> pd.DataFrame:
    """Return the `rows` of one rank and repeat."""
    return filtered(rows, (rows["rank"] == where[0]) & (rows["repeat"] == where[1]))


def by_repeat(rows: pd.DataFrame) -> Callable[[tuple[int, int]], pd.DataFrame]:
    """Return what gives the `rows` of a rank and repeat: a view of the table if they lie together.

    Looking for those of each of a thousand ranks takes longer than what is done with them.
    """
    first = runs(rows, WHERE)
    ends = [*first[1:].tolist(), len(rows)][: len(first)]
    keys = [(rank, repeat) for rank, repeat in keyed(rows, WHERE, first).to_numpy().tolist()]
    spans = dict(zip(keys, zip(first.tolist(), ends, strict=True), strict=True))
    if len(spans) < len(keys):
        return lambda key: of_repeat(rows, key)
    return lambda key: rows.iloc[slice(*spans.get(key, (0, 0)))]


def filtered(rows: pd.DataFrame, which: "pd.Series[bool] | NDArray[np.bool_]") -> pd.DataFrame:
    """Return the `rows` where `which` holds; without a copy of the table if they lie together."""
    chosen = np.asarray(which, dtype=np.bool_)
    if not chosen.any():
        return rows.iloc[:0]
    first, last = int(chosen.argmax()), len(chosen) - int(chosen[::-1].argmax())
    return rows.iloc[first:last] if chosen[first:last].all() else rows[chosen]


def _without_steps(known: "pd.Index[Any]", windows: pd.DataFrame) -> tuple[Abstention, ...]:
    lost = known.difference(pd.MultiIndex.from_frame(windows[WHERE]))
    if lost.empty:
        return ()
    ranks = ", ".join(str(rank) for rank in sorted({int(rank) for rank, _ in lost}))
    reason = "GPU work was recorded, but no step that counts: it is left out"
    return (Abstention(what=f"steps of rank {ranks}", reason=reason),)


def until_gpu_done(steps: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return `steps` that last until their kernels are done, each beginning after the last."""
    # Times are around 2**60 ns: nothing here may pass through a float.
    key = [*WHERE, "step"]
    ends = pd.concat([last_ends(rows) for rows in (steps, kernels)]).groupby(key).max()
    rows = steps.drop(columns="end_ns").merge(ends.reset_index(), on=key)
    rows = rows.sort_values([*WHERE, "start_ns"], ignore_index=True)
    by_rank = rows.groupby(WHERE, observed=True)["end_ns"]
    rows["end_ns"] = by_rank.cummax()
    before = rows.groupby(WHERE, observed=True)["end_ns"].shift(fill_value=0)
    return rows.assign(start_ns=np.maximum(rows["start_ns"], before))


def with_clock(windows: pd.DataFrame) -> pd.DataFrame:
    """Return `windows` with ``step_time_ns``, the duration of the step on its slowest rank.

    Ranks wait for one another, so a rank's own time would hide its cost to the others.
    """
    own = windows["end_ns"] - windows["start_ns"]
    clock = own.groupby([windows["repeat"], windows["step"]], observed=True).transform("max")
    return windows.assign(step_time_ns=clock)
