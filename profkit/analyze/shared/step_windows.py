"""Windows of steps on the GPU.

The CPU marks the end of a step while the GPU still works on it. So a window lasts until the last
kernel launched in the step is done, and the next begins there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from profkit.core.result import Abstention

WHERE = ["rank", "repeat"]


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


def extents(work: pd.DataFrame) -> pd.DataFrame:
    """Return the first start and the last end of `work` by rank and repeat: first and last."""
    by_rank = work.groupby(WHERE, observed=True)
    # Two calls instead of `agg`, which takes five times as long.
    return pd.DataFrame({"first": by_rank["start_ns"].min(), "last": by_rank["end_ns"].max()})


def of_repeat(rows: pd.DataFrame, where: tuple[Any, ...]) -> pd.DataFrame:
    """Return the `rows` of one rank and repeat."""
    return filtered(rows, (rows["rank"] == where[0]) & (rows["repeat"] == where[1]))


def by_repeat(rows: pd.DataFrame) -> Callable[[tuple[int, int]], pd.DataFrame]:
    """Return what gives the `rows` of a rank and repeat: a view of the table if they lie together.

    Looking for those of each of a thousand ranks takes longer than what is done with them.
    """
    where = rows[WHERE].to_numpy()
    first = np.flatnonzero(np.append(True, (where[1:] != where[:-1]).any(axis=1))[: len(rows)])
    ends = [*first[1:].tolist(), len(rows)][: len(first)]
    keys = [(rank, repeat) for rank, repeat in where[first].tolist()]
    spans = dict(zip(keys, zip(first.tolist(), ends, strict=True), strict=True))
    if len(spans) < len(keys):
        return lambda key: of_repeat(rows, key)
    return lambda key: rows.iloc[slice(*spans.get(key, (0, 0)))]


def filtered(rows: pd.DataFrame, which: "pd.Series[bool]") -> pd.DataFrame:
    """Return the `rows` where `which` holds; without a copy of the table if it holds for all."""
    return rows if which.all() else rows[which]


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
    ends = pd.concat([rows[[*key, "end_ns"]] for rows in (steps, kernels)])
    ends = ends.groupby(key, observed=True).max()
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
