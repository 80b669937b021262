"""Which ranks a timeline shows, and how their clocks are put side by side."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.tables.rank_clocks import MatchedCollectives

FIRST, LEAST, MEDIAN, MOST = "first", "least work", "median work", "most work"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRank:
    """One rank of the timeline."""

    rank: int
    roles: tuple[str, ...]
    """What it stands for among all ranks, by its own work: the step without waiting for others."""

    work_ns: int
    """Median of that over its steps."""

    offset_ns: int
    """How far its clock is ahead of the common one."""

    residual_ns: int
    """How far the ends of its collectives still are from those of others; -1 if not aligned."""


def shown_ranks(
    rows: pd.DataFrame, matched: MatchedCollectives, repeat: int, most: int
) -> list[ShownRank]:
    """Return all ranks with periods in `rows` of one repeat, or representative ones if too many.

    Clocks that no collective connects are left alone where the steps overlap those of the first
    rank; else the steps begin together.
    """
    work = _work(rows, matched.rows[matched.rows["repeat"] == repeat])
    roles = _roles(work, are_all=len(work) <= most)
    chosen = sorted(work.index) if len(work) <= most else sorted(roles)
    clocks = matched.clocks[matched.clocks["repeat"] == repeat].set_index("rank")
    known = clocks["offset_ns"].to_dict()
    doubt = clocks["residual_ns"].to_dict()
    return [
        ShownRank(
            rank=int(rank),
            roles=tuple(roles.get(rank, ())),
            work_ns=int(work[rank]),
            offset_ns=int(known[rank]) if rank in known else _moved(rows, rank, chosen[0]),
            residual_ns=int(doubt[rank]) if rank in doubt else -1,
        )
        for rank in chosen
    ]


def _work(rows: pd.DataFrame, matched: pd.DataFrame) -> "pd.Series[float]":
    """Return the median time that each rank works in a step, without waiting for others."""
    waits = matched.groupby(["rank", "step"], observed=True)["wait_ns"].sum().clip(lower=0)
    keys = pd.MultiIndex.from_frame(rows[["rank", "step"]])
    waited = waits.reindex(keys, fill_value=0).to_numpy(np.int64)
    own = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64) - waited
    return pd.Series(own).groupby(rows["rank"].to_numpy()).median()


def _roles(work: "pd.Series[float]", *, are_all: bool) -> dict[int, list[str]]:
    """Return the ranks that stand for all, each with what it stands for.

    Where all are shown, only the ends are worth a name.
    """
    ordered = work.sort_values(kind="stable").index.tolist()
    if len(ordered) == 1:
        return {int(ordered[0]): []}
    found: dict[int, list[str]] = {}
    places = {LEAST: ordered[0], MOST: ordered[-1]}
    if not are_all:
        places |= {FIRST: min(ordered), MEDIAN: ordered[(len(ordered) - 1) // 2]}
    for role, rank in places.items():
        found.setdefault(int(rank), []).append(role)
    return found


def _moved(rows: pd.DataFrame, rank: int, reference: int) -> int:
    spans = rows.groupby("rank").agg(first=("start_ns", "min"), last=("end_ns", "max"))
    own, other = (
        [int(spans[name][one]) for name in ("first", "last")] for one in (rank, reference)
    )
    overlaps = own[0] < other[1] and other[0] < own[1]
    return 0 if overlaps else own[0] - other[0]
