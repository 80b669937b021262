"""Ranks that stand for all, where there are too many to look at each, or to draw it."""

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_windows import extents
from profkit.core.formatting import counted
from profkit.core.result import Abstention


def representative(times: pd.DataFrame, ranks: NDArray[np.int64], most: int) -> list[int]:
    """Return at most `most` of `ranks`, in their order: half of them evenly chosen.

    The other half are those whose mean of ``time_ns`` differs most from that of the median rank.
    """
    if len(ranks) <= most:
        return [int(rank) for rank in ranks]
    means = times.groupby("rank", observed=True)["time_ns"].mean().reindex(ranks)
    far = (means - means.median()).abs().sort_values(ascending=False, kind="stable")
    outliers = far.index[: most // 2].to_numpy()
    others = np.setdiff1d(ranks, outliers)
    even = others[np.linspace(0, len(others) - 1, most - len(outliers)).astype(np.int64)]
    return sorted(int(rank) for rank in np.union1d(outliers, even))


def by_gpu_time(kernels: pd.DataFrame, most: int) -> tuple[list[int], int]:
    """Return at most `most` ranks by the time from their first kernel to the last, and of how many.

    `kernels` need the columns rank, repeat, start_ns and end_ns.
    """
    spans = extents(kernels)
    times = pd.DataFrame({"time_ns": spans["last"] - spans["first"]}).reset_index()
    ranks = np.unique(times["rank"].to_numpy(np.int64))
    return representative(times, ranks, most), len(ranks)


def fitting(work: LargeTable, most_rows: int) -> int:
    """Return of how many ranks the largest have at most `most_rows` together; at least of one."""
    counts: Counter[int] = Counter()
    for group in work.groups():
        counts.update(group)
    sums = np.cumsum(sorted(counts.values(), reverse=True))
    return max(int((sums <= most_rows).sum()), 1)


def left_out(
    what: str, chosen: list[int], count: int, setting: str = "most_ranks"
) -> tuple[Abstention, ...]:
    """Return that `what` is there of the `chosen` ranks only, if these are fewer than `count`."""
    if len(chosen) == count:
        return ()
    named = ", ".join(map(str, chosen))
    reason = f"ranks {named} stand for all {count}: set {setting} to have more"
    return (Abstention(what=f"{what} of {counted(count - len(chosen), 'rank')}", reason=reason),)
