"""Kernels: which GPU work takes how long, how often, and how busy the GPU is."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze.base import Columns, analysis
from profkit.analyze.shared import intervals
from profkit.core.formatting import duration, ranks_and_repeats
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings

_NAMED = ["name", "kind"]
_COLUMNS = Columns(
    "rank repeat device stream name kind start_ns end_ns step size_bytes occupancy_percent"
)
_KINDS = ("compute", "communication", "copy", "set")


_WHERE = ["rank", "repeat", "device"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/kernels.yaml``."""

    max_rows: int = 200
    """Rows kept, those with the most time; more makes the report larger."""

    small_kernel_ns: int = 10_000
    """Compute kernels shorter than this count as small: launching them takes about as long."""


@analysis(title="Kernels")
def analyze(kernels: Annotated[pd.DataFrame, _COLUMNS], config: Config) -> Result:
    """Which GPU work takes most time, and how busy is each GPU from its first to its last work?

    Busy time is the union of intervals over all streams, so it never exceeds the time that
    passed. The share of a kernel is the time that at least one call of it runs, of the busy time;
    shares may sum to more than 1 where different kernels run side by side.
    """
    if kernels.empty:
        return Result.abstain("kernels", "no GPU work was recorded")
    rows = kernels.reset_index(drop=True)
    rows["duration_ns"] = rows["end_ns"] - rows["start_ns"]
    if not rows["duration_ns"].any():
        return Result.abstain("kernels", "none of the GPU work has a duration")
    devices = _by_device(rows)
    by_name = _by_name(rows, int(devices["busy_ns"].sum()))
    note = _note(rows)
    return Result(
        metrics=_metrics(rows, devices, config),
        tables={
            "by_name": table(
                by_name,
                title="GPU work by name",
                note=note,
                limit=config.max_rows,
                sums=("calls", "total_ns"),
            ),
            "by_device": table(
                devices,
                title="Busy time of each GPU",
                note="From the first to the last work recorded; kinds overlap one another.",
            ),
        },
        charts=_charts(),
        abstentions=_abstentions(by_name),
    )


def _by_device(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rank, repeat and device: the union of its work in ns, all and by kind."""
    return pd.DataFrame(
        [
            dict(zip([*_WHERE], where, strict=True)) | _busy(work)
            for where, work in rows.groupby(_WHERE, observed=True)
        ]
    )


def _busy(rows: pd.DataFrame) -> dict[str, float]:
    spans = intervals.intervals(rows["start_ns"], rows["end_ns"])
    kind = rows["kind"].astype(object).to_numpy()
    covered = {
        f"{name}_ns": intervals.total(intervals.union(spans[kind == name])) for name in _KINDS
    }
    busy = intervals.total(intervals.union(spans))
    span = int(spans[:, 1].max() - spans[:, 0].min())
    return {
        "streams": rows["stream"].nunique(),
        "span_ns": span,
        "busy_ns": busy,
        "busy_share": _ratio(busy, span),
        **covered,
    }


def _by_name(rows: pd.DataFrame, busy_ns: int) -> pd.DataFrame:
    """Return one row per name and kind, that with most time first."""
    # Weighted by time: in a mean over calls, many short ones would outweigh the long ones.
    known = rows["occupancy_percent"].notna()
    weights = rows.assign(
        weight_ns=rows["duration_ns"].where(known, 0),
        size_bytes=rows["size_bytes"].clip(lower=0),
        weighted=(rows["occupancy_percent"] * rows["duration_ns"]).where(known, 0.0),
    )
    weights["covered_ns"] = _covered_ns(rows)
    groups = weights.groupby(_NAMED, observed=True, sort=False)
    times, covered = groups["duration_ns"], groups["covered_ns"].sum()
    result = pd.DataFrame(
        {
            "calls": times.size(),
            "total_ns": times.sum(),
            "busy_share": covered / busy_ns if busy_ns else np.nan,
            "mean_ns": times.mean(),
            "min_ns": times.min(),
            "max_ns": times.max(),
            "occupancy_percent": groups["weighted"].sum() / groups["weight_ns"].sum(),
            "size_bytes": groups["size_bytes"].sum(),
        }
    ).reset_index()
    result["size_bytes"] = result["size_bytes"].where(result["size_bytes"] > 0)
    shown = result.dropna(axis="columns", how="all").astype({"name": object, "kind": object})
    return shown.sort_values("total_ns", ascending=False, ignore_index=True)


def _covered_ns(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the ns that each row adds to the union of earlier rows of its name and device."""
    ordered = rows.sort_values("start_ns", kind="stable")
    keys = [ordered[name] for name in (*_WHERE, *_NAMED)]
    reach = ordered["end_ns"].groupby(keys, observed=True).cummax()
    before = reach.groupby(keys, observed=True).shift(fill_value=int(rows["start_ns"].min()))
    begun: pd.Series[int] = ordered["start_ns"].clip(lower=before)
    return (ordered["end_ns"] - begun).clip(lower=0)


def _metrics(rows: pd.DataFrame, devices: pd.DataFrame, config: Config) -> dict[str, Metric]:
    compute = rows[rows["kind"] == "compute"]
    small = compute["duration_ns"] < config.small_kernel_ns
    known = compute[compute["occupancy_percent"].notna()]
    weighted = (known["occupancy_percent"] * known["duration_ns"]).sum()
    metrics = {
        "busy_share": Metric(
            value=_ratio(devices["busy_ns"].sum(), devices["span_ns"].sum()),
            unit="share",
            title="Busy time of the GPUs, of the time from first to last work",
            better="higher",
        ),
        "small_kernel_share": Metric(
            value=_ratio(small.sum(), len(small)),
            unit="share",
            title=f"Compute kernels under {duration(config.small_kernel_ns)}, of all by number",
            better="lower",
        ),
        "occupancy_percent": Metric(
            value=_ratio(weighted, known["duration_ns"].sum()),
            unit="percent",
            title="Estimated achieved occupancy, mean over the time of compute kernels",
            better="higher",
        ),
        "calls_per_step": Metric(
            value=_per_step(rows),
            unit="count",
            title="Kernels, copies and sets per step and rank",
            better="lower",
        ),
    }
    return {name: metric for name, metric in metrics.items() if np.isfinite(metric.value)}


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


def _per_step(rows: pd.DataFrame) -> float:
    inside = rows[rows["step"] >= 0]
    steps = len(inside[["rank", "repeat", "step"]].drop_duplicates())
    return _ratio(len(inside), steps)


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title="GPU time by name",
            table="by_name",
            x="name",
            y=("total_ns",),
            horizontal=True,
        ),
        Chart(
            kind="bar",
            title="Busy share of each rank's GPUs",
            table="by_device",
            x="rank",
            y=("busy_share",),
            color="repeat",
        ),
    )


def _abstentions(by_name: pd.DataFrame) -> tuple[Abstention, ...]:
    if "occupancy_percent" in by_name:
        return ()
    return (
        Abstention(what="occupancy", reason="the capture has no occupancy estimate of its kernels"),
    )


def _note(rows: pd.DataFrame) -> str:
    return (
        f"Sums over {ranks_and_repeats(rows)}, all that was recorded; shares are of the busy time "
        "of all GPUs."
    )
