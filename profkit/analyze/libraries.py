"""Libraries: who wrote the kernels, tensor-core use, occupancy and efficiency of the GPU."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.lanes import Lanes, fitting
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.ratio import ratio
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows
from profkit.core.formatting import counted
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings
from profkit.tables.kernel_names import (
    LATER_TENSOR_CORES,
    TENSORBOARD_TENSOR_CORES,
    contains_any,
    library,
    uses_tensor_cores,
)

_DEVICE = [*WHERE, "device"]
_ALL = ""
_KERNELS = Columns(
    "rank repeat device name kind start_ns end_ns step occupancy_percent blocks_per_sm"
)
_MEASURED = (
    *("start_ns", "end_ns", "inside_ns", "occupancy_percent", "blocks_per_sm"),
    *("tensor_cores", "tensorboard"),
)
_TITLES = {
    "busy_share": "Kernels run, of the time of the steps (GPU utilisation in TensorBoard)",
    "sm_efficiency_share": "Estimated SM efficiency, over the time of the steps",
    "occupancy_percent": "Estimated achieved occupancy, mean over the time of kernels",
    "tensor_core_share": "Kernels named as using tensor or matrix cores, of the kernel time",
    "tensorboard_tensor_core_share": "The same by the names that TensorBoard knows",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/libraries.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    tensor_cores: tuple[str, ...] = LATER_TENSOR_CORES
    """Parts of names of kernels that use tensor cores, besides those that TensorBoard knows."""

    max_rows: int = 200
    """Rows kept of each table."""


@analysis(title="Libraries and efficiency")
def analyze(
    kernels: Annotated[LargeTable, _KERNELS], steps: pd.DataFrame, config: Config
) -> Result:
    """Which libraries do the kernels come from, and how efficiently do they use the GPU?

    Shares of libraries are of the time in which any compute or communication kernel runs; where
    kernels run side by side they add up to more than 1. As in the TensorBoard plugin, SM
    efficiency counts blocks per SM up to 1 over the whole time of the steps, idle time included,
    and occupancy and tensor cores are means over kernels, weighted by their time.
    """
    on_gpu = step_spans(kernels)
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    parts = list(_parts(kernels, windows, config))
    if not parts:
        reason = NO_GPU_WORK if on_gpu.empty else "no kernel of a GPU was recorded"
        return Result.abstain("libraries", reason)
    named, devices, covers = (pd.concat(found) for found in zip(*parts, strict=True))
    if not named["inside_ns"].any():
        return Result.abstain("libraries", "no kernel runs in the steps that count")
    by_library = _by_library(named, covers.groupby(level=0).sum())
    by_device = devices.sort_values(_DEVICE, ignore_index=True)
    note = _note(by_device)
    return Result(
        metrics=_metrics(by_device),
        tables={
            "by_library": table(
                by_library,
                title="Kernel time by library",
                note=note,
                limit=config.max_rows,
                sums=("calls", "names", "total_ns"),
            ),
            "by_device": table(
                by_device, title="Efficiency of each GPU", note=note, limit=config.max_rows
            ),
            "unknown": table(
                _unknown(named), title="Kernels of no known library", limit=config.max_rows
            ),
        },
        charts=_charts(),
        abstentions=(*missing, *_abstentions(by_device)),
    )


def _parts(
    kernels: LargeTable, windows: pd.DataFrame, config: Config
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, "pd.Series[int]"]]:
    """Yield of some ranks what `_named` and `_by_device` return, and ns covered by library."""
    for [every] in batches(kernels):
        work = every[every["kind"].isin(("compute", "communication")).to_numpy()]
        frames = work[_DEVICE].drop_duplicates().merge(windows, on=WHERE)
        for own, inside in fitting([work, frames], _DEVICE) if len(work) else ():
            rows, covered = _described(own, inside, config)
            yield _named(rows), _by_device(rows, windows), covered


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return library, name, calls, and ns in the steps, all and with tensor cores."""
    sums = rows.assign(tensor_ns=rows["inside_ns"] * rows["tensor_cores"])
    groups = sums.astype({"name": object}).groupby(["library", "name"])
    found = groups[["inside_ns", "tensor_ns"]].sum()
    return found.assign(calls=groups.size()).reset_index()


def _described(
    work: pd.DataFrame, frames: pd.DataFrame, config: Config
) -> tuple[pd.DataFrame, "pd.Series[int]"]:
    """Return the kernels with library, use of tensor cores and their time in the steps in ns.

    And the ns that the kernels of each library cover in the steps, and those of all, as "".
    """
    lanes = Lanes([work, frames], _DEVICE)
    inside, spans = intervals.union(lanes.spans(frames)), lanes.spans(work)
    # Decided once for each distinct name.
    names = work["name"].astype("category").cat
    texts = [str(name) for name in names.categories]
    codes = names.codes.to_numpy()
    known = np.array([contains_any(text, TENSORBOARD_TENSOR_CORES) for text in texts])
    using = np.array([uses_tensor_cores(text, config.tensor_cores) for text in texts])
    rows = work.assign(
        library=np.array([library(text) for text in texts], dtype=object)[codes],
        tensorboard=known[codes],
        tensor_cores=using[codes],
        inside_ns=intervals.overlap(spans, inside),
    )
    groups = rows.groupby("library", observed=True).indices
    covered = {name: _covered_ns(spans[own], inside) for name, own in groups.items()}
    return rows, pd.Series({**covered, _ALL: _covered_ns(spans, inside)})


def _frames(windows: pd.DataFrame) -> dict[Any, Intervals]:
    return {
        where: intervals.union(intervals.intervals(rows["start_ns"], rows["end_ns"]))
        for where, rows in windows.groupby(WHERE, observed=True)
    }


def _by_library(named: pd.DataFrame, covered: "pd.Series[int]") -> pd.DataFrame:
    """Return one row per library, the one with most time first."""
    groups = named.groupby("library")
    total, tensor = groups["inside_ns"].sum(), groups["tensor_ns"].sum()
    found = pd.DataFrame(
        {
            "calls": groups["calls"].sum(),
            "names": groups["name"].nunique(),
            "total_ns": total,
            "covered_ns": covered.drop(_ALL),
            "share": covered.drop(_ALL) / max(covered[_ALL], 1),
            "tensor_core_share": tensor / total.where(total > 0),
        }
    )
    flat = found.rename_axis("library").reset_index()
    return flat.sort_values("covered_ns", ascending=False, kind="stable", ignore_index=True)


def _covered_ns(spans: Intervals, inside: Intervals) -> int:
    """Return the ns of the union of kernels in the steps, summed over devices."""
    return intervals.total(intervals.intersection(intervals.union(spans), inside))


def _by_device(rows: pd.DataFrame, windows: pd.DataFrame) -> pd.DataFrame:
    frames = _frames(windows)
    measured = {name: rows[name].to_numpy() for name in _MEASURED}
    groups: dict[Any, Any] = dict(rows.groupby(_DEVICE, observed=True).indices)
    return pd.DataFrame(
        [
            dict(zip(_DEVICE, where, strict=True))
            | _efficiency({name: of[own] for name, of in measured.items()}, frames[where[:2]])
            for where, own in groups.items()
            if where[:2] in frames
        ]
    )


def _efficiency(rows: dict[str, NDArray[Any]], frame: Intervals) -> dict[str, float]:
    time, inside = intervals.total(frame), rows["inside_ns"]
    rated = np.where(rows["occupancy_percent"] >= 0, inside, 0)
    occupied = (np.nan_to_num(rows["occupancy_percent"]) * rated).sum()
    spans = intervals.intervals(rows["start_ns"], rows["end_ns"])
    resident = rows["blocks_per_sm"] > 0
    busy = intervals.overlap(frame, intervals.union(spans)).sum()
    return {
        "time_ns": time,
        "kernel_ns": int(inside.sum()),
        "busy_share": ratio(busy, time),
        "sm_efficiency_share": ratio(
            _efficient_ns(spans[resident], rows["blocks_per_sm"][resident], frame), time
        )
        if resident.any()
        else math.nan,
        "occupancy_percent": ratio(occupied, rated.sum()),
        "tensor_core_share": ratio((inside * rows["tensor_cores"]).sum(), inside.sum()),
        "tensorboard_tensor_core_share": ratio((inside * rows["tensorboard"]).sum(), inside.sum()),
    }


def _efficient_ns(spans: Intervals, per_sm: NDArray[Any], frame: Intervals) -> float:
    """Return the time in `frame`, weighted by the blocks per SM of all kernels, at most 1."""
    origin, blocks = int(spans[:, 0].min()), per_sm.astype(np.float64)
    times = (spans - origin).T.ravel()
    order = np.argsort(times, kind="stable")
    level = np.cumsum(np.concatenate((blocks, -blocks))[order])
    return _integral_within(times[order], level.clip(0, 1), frame - origin)


def _integral_within(
    times: NDArray[np.int64], level: NDArray[np.float64], frame: Intervals
) -> float:
    """Return the integral over `frame` of the step function `level`, which changes at `times`."""
    sums = np.r_[0, np.cumsum(level[:-1] * np.diff(times))]
    at_edges = np.interp(frame.ravel(), times, sums).reshape(-1, 2)
    return float((at_edges[:, 1] - at_edges[:, 0]).sum())


def _unknown(named: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of no known library by name, those with most time first."""
    other = named[named["library"] == library("")].rename(columns={"inside_ns": "total_ns"})
    found = other.groupby("name")[["calls", "total_ns"]].sum().reset_index()
    return found.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _metrics(by_device: pd.DataFrame) -> dict[str, Metric]:
    """Return means over devices, weighted by the time of steps or by that of kernels."""
    over_time = ("busy_share", "sm_efficiency_share")
    found = {}
    for name, title in _TITLES.items():
        weights = by_device["time_ns" if name in over_time else "kernel_ns"]
        known = by_device[name].notna()
        value = ratio((by_device[name] * weights)[known].sum(), weights[known].sum())
        if math.isfinite(value):
            unit = "percent" if name.endswith("percent") else "share"
            found[name] = Metric(value=value, unit=unit, title=title, better="higher")
    return found


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title="Kernel time by library",
            table="by_library",
            x="library",
            y=("covered_ns",),
            horizontal=True,
        ),
        Chart(
            kind="bar",
            title="SM efficiency and time with kernels, of the time of the steps",
            table="by_device",
            x="rank",
            y=("busy_share", "sm_efficiency_share"),
        ),
    )


def _abstentions(by_device: pd.DataFrame) -> tuple[Abstention, ...]:
    reasons = {
        "sm_efficiency_share": ("SM efficiency", "the capture has no blocks per SM of its kernels"),
        "occupancy_percent": ("occupancy", "the capture has no occupancy estimate of its kernels"),
    }
    return tuple(
        Abstention(what=what, reason=reason)
        for name, (what, reason) in reasons.items()
        if by_device[name].isna().all()
    )


def _note(by_device: pd.DataFrame) -> str:
    return (
        f"{counted(len(by_device), 'GPU')} of {counted(by_device['rank'].nunique(), 'rank')}, in "
        "the steps that count. Libraries and tensor cores are known by the names of kernels."
    )
