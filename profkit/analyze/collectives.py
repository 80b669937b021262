"""Collectives: how fast they move data, and how much of their time is waiting for the last rank."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.tables.rank_clocks import (
    MATCHED_OPERATIONS,
    UNMATCHED,
    MatchedCollectives,
    matched_collectives,
)

_BY = ["operation", "group_name", "size_bytes", "dtype"]
_BY_CALL = ["repeat", "step", "operation"]
_NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/collectives.yaml``."""

    max_rows: int = 1000
    """Rows kept of each table."""


@analysis(title="Collectives")
def analyze(collectives: pd.DataFrame, config: Config) -> Result:
    """How fast is communication, and how much of it is transfer, how much waiting?

    The k-th call of an operation and group in a step is the same call on all ranks. Their clocks
    are put side by side by the ends of these calls. Until the last rank has come (its arrival) the
    others wait; what follows is the transfer, and its time on the last rank is what bandwidths
    divide by. Algorithm bandwidth is size over time; bus bandwidth is that times NCCL's factor for
    the operation and number of ranks, and comparable with the peak of a link. The launch delay,
    from the CPU's call to the start on the GPU, comes before and is part of neither.
    """
    if collectives.empty:
        return Result.abstain("communication", "no communication call was recorded")
    matched = matched_collectives(collectives)
    sizes = _sizes(_moved(collectives, matched.rows))
    return Result(
        metrics=_metrics(sizes, matched, collectives),
        tables=_tables(sizes, matched, config),
        charts=_charts(sizes, matched),
        abstentions=_abstentions(matched, sizes, collectives),
    )


def _factor(operation: "pd.Series[str]", ranks: "pd.Series[int]") -> "pd.Series[float]":
    """Return bus bandwidth over algorithm bandwidth, as in NCCL's ``doc/PERFORMANCE.md``.

    NaN for operations that it does not list, and where the number of ranks is unknown.
    """
    once = ((ranks - 1) / ranks).where(ranks > 0)
    alone = pd.Series(1.0, index=ranks.index)
    factors = {"allreduce": 2 * once, "broadcast": alone, "reduce": alone}
    factors |= dict.fromkeys(("reduce_scatter", "allgather", "alltoall"), once)
    factors |= dict.fromkeys(("send", "recv", "sendrecv"), alone)
    result = pd.Series(np.nan, index=ranks.index)
    for name, factor in factors.items():
        result = result.mask((operation == name).to_numpy(), factor)
    return result


def _moved(collectives: pd.DataFrame, matched: pd.DataFrame) -> pd.DataFrame:
    """Return one row per matched collective (that of its last rank) and per unmatched call."""
    together = matched[matched["last"].to_numpy()]
    largest = matched.groupby("meeting")["size_bytes"].max()
    together = together.assign(size_bytes=together["meeting"].map(largest))
    key = ["repeat", "rank", "start_ns", "collective"]
    lone = collectives.merge(matched[key].assign(matched=True), on=key, how="left")
    lone = lone[lone["matched"].isna().to_numpy()].assign(ranks=-1)
    rows = pd.concat([part for part in (together, lone) if len(part)], ignore_index=True)
    group = rows["group_description"].astype(object)
    size = rows["group_size"].where(rows["group_size"] > 0, rows["ranks"])
    return rows.assign(
        operation=rows["operation"].astype(object).replace("", "unknown"),
        dtype=rows["dtype"].astype(object),
        group_name=group.where(group != "", rows["group"].astype(object)),
        group_ranks_count=size,
        time_ns=rows["end_ns"] - rows["start_ns"],
        with_waiting=(rows["ranks"] < 0) | (rows["ranks"] < rows["group_size"]),
        group_is_known=rows["group_size"] > 0,
    )


def _sizes(moved: pd.DataFrame) -> pd.DataFrame:
    """Return calls, time and bandwidth of each operation, group and size; the longest first."""
    of_group = ["group_ranks_count", "group_is_known", "with_waiting"]
    by_size = moved.groupby([*_BY, *of_group], dropna=False)
    rows = by_size.agg(
        calls=("time_ns", "size"), time_ns=("time_ns", "sum"), median_time_ns=("time_ns", "median")
    ).reset_index()
    rows = rows.sort_values("time_ns", ascending=False, ignore_index=True)
    rows["time_share"] = rows["time_ns"] / max(int(rows["time_ns"].sum()), 1)
    seconds = rows["time_ns"] / _NS_PER_S
    known = (rows["size_bytes"] >= 0) & (seconds > 0)
    algorithm = (rows["size_bytes"] * rows["calls"] / seconds).where(known)
    factor = _factor(rows["operation"], rows["group_ranks_count"])
    rows["algorithm_bandwidth_bytes_per_s"] = algorithm
    rows["bus_bandwidth_bytes_per_s"] = algorithm * factor
    return rows


def _metrics(
    sizes: pd.DataFrame, matched: MatchedCollectives, collectives: pd.DataFrame
) -> dict[str, Metric]:
    metrics = {}
    for operation, rows in sizes[sizes["bus_bandwidth_bytes_per_s"].notna()].groupby("operation"):
        moved = rows["bus_bandwidth_bytes_per_s"] * rows["time_ns"]
        metrics[f"{operation}_bus_bandwidth"] = Metric(
            value=float(moved.sum() / rows["time_ns"].sum()),
            unit="bytes_per_s",
            title=f"Bus bandwidth of {operation}, all sizes{_bound(rows)}",
            better="higher",
        )
    delay = _delay(collectives).dropna()
    parts: list[tuple[str, float, str, str]] = []
    if len(matched.rows):
        time = matched.rows["wait_ns"].sum() + matched.rows["transfer_ns"].sum()
        share = float(matched.rows["wait_ns"].sum() / max(time, 1))
        missing = (matched.rows["ranks"] < matched.rows["group_size"]).any()
        title = f"Waiting for the last rank, of time in calls{', at least' if missing else ''}"
        parts.append(("wait_share", share, "share", title))
    if len(delay):
        title = "Median time from the CPU's call to its start"
        parts.append(("launch_delay", float(delay.median()), "ns", title))
    return metrics | {
        name: Metric(value=value, unit=unit, title=title, better="lower")
        for name, value, unit, title in parts
    }


def _bound(rows: pd.DataFrame) -> str:
    """Return that a bandwidth is a lower bound, where ranks are missing or unknown."""
    if rows["with_waiting"].any():
        return ", at least: waiting is included"
    return "" if rows["group_is_known"].all() else ", at least: the size of the group is unknown"


def _delay(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return the time from the CPU's call to the start in ns, NaN where the call is unknown."""
    delay: pd.Series[float] = (rows["start_ns"] - rows["call_ns"]).where(rows["call_ns"] >= 0)
    return delay


def _by_collective(matched: MatchedCollectives) -> pd.DataFrame:
    """Return one row per matched collective, the longest waits first."""
    rows = matched.rows.assign(launch_delay_ns=_delay(matched.rows))
    groups = rows.groupby("meeting")
    last = rows[rows["last"].to_numpy()].set_index("meeting")
    result = last[[*_BY_CALL, "group_description", "size_bytes", "ranks"]].assign(
        last_rank=last["rank"],
        arrival_skew_ns=groups["arrival_ns"].max() - groups["arrival_ns"].min(),
        wait_ns=groups["wait_ns"].sum(),
        transfer_ns=last["transfer_ns"],
        launch_delay_ns=last["launch_delay_ns"],
    )
    return result.sort_values("wait_ns", ascending=False, kind="stable", ignore_index=True)


def _tables(sizes: pd.DataFrame, matched: MatchedCollectives, config: Config) -> dict[str, Table]:
    shown = sizes.drop(columns="group_is_known")
    shown = shown.rename(columns={"group_name": "group", "group_ranks_count": "ranks"})
    shown["with_waiting"] = np.where(shown["with_waiting"], "yes", "no")
    tables = {
        "by_size": table(
            shown.replace({"size_bytes": -1, "ranks": -1}, None),
            title="Bandwidth by operation, group and size",
            note="Time is that of the rank that came last; where ranks could not be matched, or "
            "were not all recorded, it contains waiting, and the bandwidth is a lower bound. Size "
            "is the larger of input and output. Ranks are those of the group or, if it is unknown, "
            "those recorded, and the bus bandwidth is a lower bound.",
            limit=config.max_rows,
        ),
    }
    if matched.rows.empty:
        return tables
    return tables | {
        "by_rank": table(
            _by_rank(matched),
            title="Transfer, waiting and launch delay of each rank, all its calls",
        ),
        "by_call": table(
            _by_collective(matched).replace({"size_bytes": -1}, None),
            title="Calls, the longest waits first",
            note="Waiting is the sum over ranks; transfer and launch delay are the last rank's.",
            limit=config.max_rows,
        ),
        "clocks": table(
            matched.clocks,
            title="Clocks, put side by side by the ends of calls",
            note="The offset is how far a clock is ahead of the lowest rank's; the residual is the "
            "median distance of its ends from the median end, after that. Ranks that no chain of "
            "calls connects are not on one clock.",
        ),
    }


def _by_rank(matched: MatchedCollectives) -> pd.DataFrame:
    rows = matched.rows.assign(launch_delay_ns=_delay(matched.rows))
    result = rows.groupby("rank", observed=True).agg(
        calls=("meeting", "size"),
        times_last=("last", "sum"),
        transfer_ns=("transfer_ns", "sum"),
        wait_ns=("wait_ns", "sum"),
        mean_launch_delay_ns=("launch_delay_ns", "mean"),
    )
    result["wait_share"] = result["wait_ns"] / (result["wait_ns"] + result["transfer_ns"])
    return result.reset_index()


def _charts(sizes: pd.DataFrame, matched: MatchedCollectives) -> tuple[Chart, ...]:
    bandwidth = Chart(
        kind="scatter",
        title="Bus bandwidth by size",
        table="by_size",
        x="size_bytes",
        y=("bus_bandwidth_bytes_per_s",),
        color="operation",
        log=("x",),
    )
    parts = Chart(
        kind="stacked_bar",
        title="Transfer and waiting of each rank",
        table="by_rank",
        x="rank",
        y=("transfer_ns", "wait_ns"),
    )
    has_bandwidth = bool(sizes["bus_bandwidth_bytes_per_s"].notna().any())
    return (*((bandwidth,) if has_bandwidth else ()), *((parts,) if len(matched.rows) else ()))


def _abstentions(
    matched: MatchedCollectives, sizes: pd.DataFrame, collectives: pd.DataFrame
) -> tuple[Abstention, ...]:
    """Return which numbers are unknown, and for how many calls."""
    matchable = int(collectives["operation"].isin(MATCHED_OPERATIONS).sum())
    recorded = matched.rows.groupby("meeting")[["ranks", "group_size"]].max()
    missing = int((recorded["ranks"] < recorded["group_size"]).sum())
    moving = sizes[sizes["operation"] != "barrier"]
    sizeless = int(moving.loc[moving["size_bytes"] < 0, "calls"].sum())
    calls = int(moving["calls"].sum())
    one = len(collectives["rank"].unique()) == 1
    reasons = (
        (
            matched.rows.empty,
            "arrival skew and waiting",
            "calls of one rank only were recorded: capture every rank"
            if one
            else "no call has a counterpart on the other ranks"
            if matchable
            else UNMATCHED,
        ),
        (
            bool(len(matched.rows)) and matched.unmatched > 0,
            f"waiting in {matched.unmatched} of {matchable} calls",
            "the ranks did not record them equally often in their step, or not all of them",
        ),
        (
            missing > 0,
            f"all waiting in {missing} of {len(recorded)} collectives",
            "their group has ranks that were not recorded: one of these may have come last",
        ),
        (
            sizeless > 0,
            f"bandwidth of {sizeless} of {calls} calls",
            "the trace does not say how much they move: a newer PyTorch, or record_shapes, does",
        ),
    )
    return tuple(Abstention(what=what, reason=reason) for holds, what, reason in reasons if holds)
