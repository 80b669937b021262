"""GPU memory that the allocator holds and the program does not: how much, and why."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import NonNegativeInt, PositiveInt

from profkit.analyze._allocator_replays import replays
from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import WHERE
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/fragmentation.yaml``."""

    split_limits_mib: tuple[PositiveInt, ...] = (128, 512)
    """Values of max_split_size_mb to replay the history with."""

    max_replayed: NonNegativeInt = 1_000_000
    """Allocations of one GPU up to which its history is replayed; 0 replays none."""


@analysis(title="Fragmentation")
def analyze(  # noqa: PLR0913, PLR0917 - each names a table
    memory_events: pd.DataFrame,
    allocations: pd.DataFrame,
    segments: pd.DataFrame,
    blocks: pd.DataFrame,
    out_of_memory: pd.DataFrame,
    allocator_settings: pd.DataFrame,
    config: Config,
) -> Result:
    """How much more did the allocator reserve than the program had allocated?

    Gaps are inactive blocks at the time of the snapshot, which belongs to the end; only within
    one of them can a block fit without more being reserved. The replay follows PyTorch's own
    rules for segments and blocks through the recorded allocations, with other settings of
    PYTORCH_CUDA_ALLOC_CONF, where with the recorded ones it reserves what was reserved, within 2%.
    Where memory ran out, it tells whether the request would have fitted with another.
    """
    if segments.empty:
        return Result.abstain("fragmentation", "no segment of GPU memory was recorded")
    if segments["device"].astype(object).str.startswith("cpu").all():
        reason = "memory of the CPU is handed out by the C library, which keeps no such record"
        return Result.abstain("fragmentation", reason)
    ends = _ends(segments, blocks)
    peaks, missing = _peaks(memory_events, segments)
    shortages = _shortages(out_of_memory, memory_events)
    what_if = replays(
        allocations,
        peaks,
        shortages,
        allocator_settings,
        limits_mib=config.split_limits_mib,
        most=config.max_replayed,
    )
    return Result(
        metrics=_metrics(peaks, ends),
        tables={
            "peaks": table(peaks, title="Reserved and allocated when most was reserved"),
            "gaps": table(ends, title="Unused memory within segments at the end"),
            "replay": table(_shown(what_if.rows), title="What other settings would have reserved"),
            "shortages": table(
                shortages.assign(fits_with=what_if.fitting(shortages)),
                title="Requests that ran out of memory, the last of each GPU",
            ),
        },
        charts=_charts(),
        abstentions=(*missing, *what_if.missing),
    )


def _shown(replay: pd.DataFrame) -> pd.DataFrame:
    """Return `replay` as people read it: what a request would have needed, if one failed."""
    needed = replay["needed_bytes"].where(replay["needed_bytes"] >= 0)
    return replay.drop(columns="is_other").assign(needed_bytes=needed)


def _ends(segments: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    totals = segments.groupby(WHERE, observed=True)[["size_bytes", "active_bytes"]].sum()
    totals.columns = pd.Index(["reserved_bytes", "active_bytes"])
    idle = blocks[(blocks["state"] == "inactive").to_numpy()]
    gaps = idle.groupby(WHERE, observed=True)["size_bytes"].agg(["sum", "max", "size"])
    gaps.columns = pd.Index(["gaps_bytes", "largest_gap_bytes", "gaps"])
    used = segments[(segments["allocated_bytes"] > 0).to_numpy()]
    used = used[[*WHERE, "address"]].rename(columns={"address": "segment"})
    # A segment without any allocated block can be given back whole by empty_cache().
    stuck = idle.merge(used, on=[*WHERE, "segment"])
    lost = stuck.groupby(WHERE, observed=True)["size_bytes"].sum().rename("stuck_bytes")
    rows = totals.join(gaps).join(lost).fillna(0).astype(np.int64)
    return rows.reset_index()


def _peaks(
    events: pd.DataFrame, segments: pd.DataFrame
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return one row per device: when most was reserved, or at the end without a history."""
    reserved = segments.groupby(WHERE, observed=True)[["size_bytes", "allocated_bytes"]].sum()
    reserved.columns = pd.Index(["reserved_bytes", "allocated_bytes"])
    reserved = reserved.assign(recorded=0, times_freed=0, freed_bytes=0)
    missing = []
    for where, row in reserved.iterrows():
        own = events[(events[WHERE] == list(_key(where))).all(axis=1)]
        if own.empty:
            what = f"fragmentation before the end on {_key(where)[-1]} of rank {_key(where)[0]}"
            missing.append(Abstention(what=what, reason="the snapshot has no history"))
            continue
        # Of the instants with the most reserved, the one with the most in use: the least unused.
        level = own["reserved_bytes"].to_numpy()
        top = own[level == level.max()]
        best = top.iloc[int(top["allocated_bytes"].to_numpy().argmax())]
        if best["reserved_bytes"] >= row["reserved_bytes"]:
            values = best[["reserved_bytes", "allocated_bytes"]].to_list()
            reserved.loc[[where], ["reserved_bytes", "allocated_bytes"]] = values
        freed = own["size_bytes"][(own["action"] == "segment_free").to_numpy()].abs()
        given_back = [1, len(freed), int(freed.sum())]
        reserved.loc[[where], ["recorded", "times_freed", "freed_bytes"]] = given_back
    reserved["unused_bytes"] = (reserved["reserved_bytes"] - reserved["allocated_bytes"]).clip(0)
    reserved["unused_share"] = reserved["unused_bytes"] / reserved["reserved_bytes"].clip(lower=1)
    return reserved.reset_index(), tuple(missing)


def _shortages(out_of_memory: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """Return the last request of each device that failed, with what it found."""
    last = out_of_memory.groupby(WHERE, observed=True).tail(1)
    rows = last[[*WHERE, "event", "size_bytes", "free_bytes", "line", "stack", "step"]]
    rows = rows.rename(columns={"size_bytes": "asked_bytes"}).reset_index(drop=True)
    levels = [
        events[(events[WHERE] == [row[name] for name in WHERE]).all(axis=1)].iloc[row["event"]]
        for row in rows.to_dict("records")
    ]
    for name in ("reserved_bytes", "allocated_bytes"):
        rows[name] = np.array([level[name] for level in levels], dtype=np.int64)
    return rows


def _key(where: Any) -> tuple[Any, ...]:
    return tuple(where)


def _metrics(peaks: pd.DataFrame, ends: pd.DataFrame) -> dict[str, Metric]:
    worst = peaks.iloc[int(peaks["reserved_bytes"].argmax())]
    return {
        "reserved_bytes": Metric(
            value=int(worst["reserved_bytes"]),
            unit="bytes",
            title="Peak reserved memory, of the GPU with the most",
            better="lower",
        ),
        "unused_share": Metric(
            value=float(worst["unused_share"]),
            unit="share",
            title="Unused at the peak of reserved memory, % of it",
            better="lower",
        ),
        "largest_gap_bytes": Metric(
            value=int(ends["largest_gap_bytes"].min()),
            unit="bytes",
            title="Largest block that fits at the end without reserving more, least of the GPUs",
            better="higher",
        ),
    }


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title="What other settings would have reserved",
            table="replay",
            x="policy",
            y=("reserved_bytes",),
            color="rank",
        ),
    )
