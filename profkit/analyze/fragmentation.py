"""Device memory that the allocator holds and the program does not: how much, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import NonNegativeInt, PositiveInt

from profkit.analyze._allocator import Policy, peak_reserved_bytes
from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import WHERE
from profkit.core.formatting import size
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings

_MIB = 1 << 20
_PLAIN = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/fragmentation.yaml``."""

    warn_share: float = 0.2
    """Unused share of the reserved memory at its peak above which it is worth a warning."""

    split_limits_mib: tuple[PositiveInt, ...] = (128, 512)
    """Values of max_split_size_mb to replay the history with."""

    max_replayed: NonNegativeInt = 1_000_000
    """Allocations of one device up to which its history is replayed; 0 replays none."""

    points: PositiveInt = 400
    """Instants for which reserved and allocated memory are drawn."""


@analysis(title="Fragmentation")
def analyze(
    memory_events: pd.DataFrame,
    allocations: pd.DataFrame,
    segments: pd.DataFrame,
    blocks: pd.DataFrame,
    config: Config,
) -> Result:
    """Compare what the allocator reserved with what the program had allocated.

    Gaps are inactive blocks at the time of the snapshot, which belongs to the end; only within
    one of them can a block fit without more being reserved. The replay follows PyTorch's own
    rules for segments and blocks through the recorded allocations, with other settings of
    PYTORCH_CUDA_ALLOC_CONF; "default" against "recorded" tells how far to trust it.
    """
    if segments.empty:
        return Result.abstain("fragmentation", "no segment of device memory was recorded")
    if segments["device"].astype(object).str.startswith("cpu").all():
        reason = "memory of the CPU is handed out by the C library, which keeps no such record"
        return Result.abstain("fragmentation", reason)
    ends = _ends(segments, blocks)
    peaks, missing = _peaks(memory_events, segments)
    replays, left_out = _replays(allocations, peaks, config)
    return Result(
        findings=(*_findings(peaks, config), *_advice(replays)),
        metrics=_metrics(peaks, ends),
        tables={
            "peaks": table(peaks, title="Reserved and allocated when most was reserved"),
            "gaps": table(ends, title="Unused memory within segments at the end"),
            "replay": table(replays, title="What other settings would have reserved"),
            "over_time": table(
                _over_time(memory_events, peaks, config.points),
                title="Reserved and allocated over time",
                note="Of the device that reserved most.",
            ),
        },
        charts=_charts(),
        abstentions=(*missing, *left_out),
    )


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
    reserved["recorded"] = 0
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
        reserved.loc[[where], "recorded"] = 1
    reserved["unused_bytes"] = (reserved["reserved_bytes"] - reserved["allocated_bytes"]).clip(0)
    reserved["unused_share"] = reserved["unused_bytes"] / reserved["reserved_bytes"].clip(lower=1)
    return reserved.reset_index(), tuple(missing)


def _key(where: Any) -> tuple[Any, ...]:
    return tuple(where)


def _replays(
    allocations: pd.DataFrame, peaks: pd.DataFrame, config: Config
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    policies = [
        Policy(name=_PLAIN),
        Policy(name="expandable_segments:True", expandable=True),
        *(
            Policy(name=f"max_split_size_mb:{limit}", max_split_bytes=limit * _MIB)
            for limit in config.split_limits_mib
        ),
    ]
    rows, missing = [], []
    for peak in peaks.to_dict("records"):
        where = [peak[name] for name in WHERE]
        own = allocations[(allocations[WHERE] == where).all(axis=1)]
        if not peak["recorded"] or not 0 < len(own) <= config.max_replayed:
            count = f"{len(own):,} allocations, and max_replayed is {config.max_replayed:,}"
            reason = count if peak["recorded"] else "the snapshot has no history"
            missing.append(
                Abstention(what=f"a replay of {where[-1]} of rank {where[0]}", reason=reason)
            )
            continue
        changes = list(_changes(own))
        base = dict(zip(WHERE, where, strict=True))
        recorded = {"policy": "recorded", "reserved_bytes": int(peak["reserved_bytes"])}
        replayed = [
            {"policy": policy.name, "reserved_bytes": peak_reserved_bytes(changes, policy)}
            for policy in policies
        ]
        plain = replayed[0]["reserved_bytes"]
        rows += [
            base | row | {"saved_bytes": int(plain) - int(row["reserved_bytes"])}  # type: ignore[call-overload]
            for row in (recorded, *replayed)
        ]
    columns = [*WHERE, "policy", "reserved_bytes", "saved_bytes"]
    return pd.DataFrame(rows, columns=columns), tuple(missing)


def _changes(own: pd.DataFrame) -> Iterator[tuple[int, int, int]]:
    """Yield number, bytes (-1 for a free) and stream of each change, in the order of time."""
    own = own[(own["size_bytes"] >= 0).to_numpy()]
    start, end = own["start_event"].to_numpy(), own["end_event"].to_numpy()
    ended = np.flatnonzero(end >= 0)
    number = np.concatenate([np.arange(len(own)), ended])
    sizes = np.concatenate([own["size_bytes"].to_numpy(), np.full(len(ended), -1)])
    order = np.argsort(np.concatenate([start, end[ended]]), kind="stable")
    streams = own["stream"].to_numpy()[number]
    columns = (number[order], sizes[order], streams[order])
    return zip(*(column.tolist() for column in columns), strict=True)


def _over_time(events: pd.DataFrame, peaks: pd.DataFrame, points: int) -> pd.DataFrame:
    columns = ["event", "reserved_bytes", "allocated_bytes"]
    worst = peaks.iloc[int(peaks["reserved_bytes"].argmax())]
    own = events[(events[WHERE] == worst[WHERE].to_list()).all(axis=1)]
    if own.empty:
        return pd.DataFrame(columns=columns)
    own = own.assign(event=np.arange(len(own)))
    # The highest of each part, so that no peak is lost.
    part = own["event"] * points // len(own)
    return own.groupby(part)[columns].max().reset_index(drop=True)


def _findings(peaks: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    worst = peaks.iloc[int(peaks["unused_bytes"].argmax())]
    share = float(worst["unused_share"])
    return (
        Finding(
            severity=Severity.WARN if share > config.warn_share else Severity.INFO,
            message=f"When rank {worst['rank']} had reserved most of {worst['device']}, "
            f"{size(worst['reserved_bytes'])}, {share:.0%} of that was not in use.",
            metric="fragmentation.unused_share",
            value=share,
            unit="share",
            evidence={"rank": int(worst["rank"])},
            advice="Unused memory is cached for later allocations; it hurts only where a device "
            "is nearly full. The replay says which setting would have reserved less.",
        ),
    )


def _advice(replays: pd.DataFrame) -> tuple[Finding, ...]:
    """Return the setting that would have saved most memory, if any would."""
    choices = replays[~replays["policy"].isin(("recorded", _PLAIN))]
    if choices.empty or choices["saved_bytes"].max() <= 0:
        return ()
    best = choices.iloc[int(choices["saved_bytes"].argmax())]
    before = best["reserved_bytes"] + best["saved_bytes"]
    return (
        Finding(
            severity=Severity.INFO,
            message=f"With {best['policy']} rank {best['rank']} would have reserved "
            f"{size(best['reserved_bytes'])} instead of {size(before)} on {best['device']}.",
            metric="fragmentation.saved_bytes",
            value=int(best["saved_bytes"]),
            unit="bytes",
            evidence={"rank": int(best["rank"]), "policy": str(best["policy"])},
            advice=f"Set PYTORCH_CUDA_ALLOC_CONF={best['policy']} if memory is short.",
        ),
    )


def _metrics(peaks: pd.DataFrame, ends: pd.DataFrame) -> dict[str, Metric]:
    worst = peaks.iloc[int(peaks["reserved_bytes"].argmax())]
    return {
        "reserved_bytes": Metric(
            value=int(worst["reserved_bytes"]),
            unit="bytes",
            title="Most memory reserved, of the device with the most",
            better="lower",
        ),
        "unused_share": Metric(
            value=float(worst["unused_share"]),
            unit="share",
            title="Not in use when most was reserved, of what was reserved",
            better="lower",
        ),
        "largest_gap_bytes": Metric(
            value=int(ends["largest_gap_bytes"].min()),
            unit="bytes",
            title="Largest block that fits at the end without reserving more, least of the devices",
            better="higher",
        ),
    }


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="line",
            title="Reserved and allocated over time",
            table="over_time",
            x="event",
            y=("reserved_bytes", "allocated_bytes"),
        ),
        Chart(
            kind="bar",
            title="What other settings would have reserved",
            table="replay",
            x="policy",
            y=("reserved_bytes",),
            color="rank",
        ),
    )
