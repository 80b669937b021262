"""Kernels: which GPU work takes how long, how often, and how busy the GPU is."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.ratio import ratio
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
def analyze(kernels: Annotated[LargeTable, _COLUMNS], config: Config) -> Result:
    """Which GPU work takes most time, and how busy is each GPU from its first to its last work?

    Busy time is the union of intervals over all streams, so it never exceeds the time that
    passed. The share of a kernel is the time that at least one call of it runs, of the busy time;
    shares may sum to more than 1 where different kernels run side by side.
    """
    parts = [_summed(rows, config) for [rows] in batches(kernels) if len(rows)]
    if not parts:
        return Result.abstain("kernels", NO_GPU_WORK)
    named, devices, of_steps = (
        pd.concat(rows, ignore_index=True) for rows in zip(*parts, strict=True)
    )
    if not named["total_ns"].any():
        return Result.abstain("kernels", "none of the GPU work has a duration")
    devices = devices.sort_values(_WHERE, ignore_index=True)
    by_name = _by_name(named, int(devices["busy_ns"].sum()))
    note = _note(devices)
    return Result(
        metrics=_metrics(named, devices, of_steps, config),
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
        "busy_share": ratio(busy, span),
        **covered,
    }


def _summed(
    kernels: pd.DataFrame, config: Config
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return sums of some ranks: by name and kind, by device, and the calls of each step."""
    rows = kernels.reset_index(drop=True)
    rows["duration_ns"] = rows["end_ns"] - rows["start_ns"]
    of_steps = rows[rows["step"] >= 0].groupby(["rank", "repeat", "step"]).size()
    return _named(rows, config), _by_device(rows), of_steps.reset_index(name="calls")


def _named(rows: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return one row per name and kind with what is summed over ranks."""
    # Weighted by time: in a mean over calls, many short ones would outweigh the long ones.
    known = rows["occupancy_percent"].notna()
    weights = rows.assign(
        small=rows["duration_ns"] < config.small_kernel_ns,
        weight_ns=rows["duration_ns"].where(known, 0),
        size_bytes=rows["size_bytes"].clip(lower=0),
        weighted=(rows["occupancy_percent"] * rows["duration_ns"]).where(known, 0.0),
    )
    weights["covered_ns"] = _covered_ns(rows)
    groups = weights.groupby(_NAMED, observed=True, sort=False)
    found = groups.agg(
        calls=("duration_ns", "size"),
        small=("small", "sum"),
        total_ns=("duration_ns", "sum"),
        min_ns=("duration_ns", "min"),
        max_ns=("duration_ns", "max"),
        **{name: (name, "sum") for name in ("covered_ns", "weight_ns", "weighted", "size_bytes")},
    )
    return found.reset_index().astype({"name": object, "kind": object})


def _by_name(named: pd.DataFrame, busy_ns: int) -> pd.DataFrame:
    """Return one row per name and kind, that with most time first."""
    groups = named.groupby(_NAMED, sort=False)
    sums = groups[["calls", "total_ns", "covered_ns", "weight_ns", "weighted", "size_bytes"]].sum()
    result = pd.DataFrame(
        {
            "calls": sums["calls"],
            "total_ns": sums["total_ns"],
            "busy_share": sums["covered_ns"] / busy_ns if busy_ns else np.nan,
            "mean_ns": sums["total_ns"] / sums["calls"],
            "min_ns": groups["min_ns"].min(),
            "max_ns": groups["max_ns"].max(),
            "occupancy_percent": sums["weighted"] / sums["weight_ns"],
            "size_bytes": sums["size_bytes"],
        }
    ).reset_index()
    result["size_bytes"] = result["size_bytes"].where(result["size_bytes"] > 0)
    shown = result.dropna(axis="columns", how="all")
    return shown.sort_values("total_ns", ascending=False, ignore_index=True)


def _covered_ns(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the ns that each row adds to the union of earlier rows of its name and device."""
    ordered = rows.sort_values("start_ns", kind="stable")
    keys = [ordered[name] for name in (*_WHERE, *_NAMED)]
    reach = ordered["end_ns"].groupby(keys, observed=True).cummax()
    before = reach.groupby(keys, observed=True).shift(fill_value=int(rows["start_ns"].min()))
    begun: pd.Series[int] = ordered["start_ns"].clip(lower=before)
    return (ordered["end_ns"] - begun).clip(lower=0)


def _metrics(
    named: pd.DataFrame, devices: pd.DataFrame, of_steps: pd.DataFrame, config: Config
) -> dict[str, Metric]:
    compute = named[named["kind"] == "compute"]
    metrics = {
        "busy_share": Metric(
            value=ratio(devices["busy_ns"].sum(), devices["span_ns"].sum()),
            unit="share",
            title="Busy time of the GPUs, of the time from first to last work",
            better="higher",
        ),
        "small_kernel_share": Metric(
            value=ratio(compute["small"].sum(), compute["calls"].sum()),
            unit="share",
            title=f"Compute kernels under {duration(config.small_kernel_ns)}, of all by number",
            better="lower",
        ),
        "occupancy_percent": Metric(
            value=ratio(compute["weighted"].sum(), compute["weight_ns"].sum()),
            unit="percent",
            title="Estimated achieved occupancy, mean over the time of compute kernels",
            better="higher",
        ),
        "calls_per_step": Metric(
            value=ratio(of_steps["calls"].sum(), len(of_steps)),
            unit="count",
            title="Kernels, copies and sets per step and rank",
            better="lower",
        ),
    }
    return {name: metric for name, metric in metrics.items() if np.isfinite(metric.value)}


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


def _note(devices: pd.DataFrame) -> str:
    return (
        f"Sums over {ranks_and_repeats(devices)}, all that was recorded; shares are of the busy "
        "time of all GPUs."
    )
