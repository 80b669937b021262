"""Transfers: copies between CPU and GPU, copies on the GPU, and sets, with bandwidths."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows, with_clock
from profkit.core.formatting import agreeing, ranks_and_repeats
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings

_NS_PER_S = 1e9
_SET = "set"
_MEMORY = ("Pageable", "Pinned", "Managed")
_UNKNOWN = "unknown"
_KERNELS = Columns("rank repeat device name kind start_ns end_ns step size_bytes copy_kind")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/transfers.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    points: int = 100
    """Parts of the time for which bandwidths are drawn."""

    max_rows: int = 200
    """Rows kept of each table but that of the bandwidth over time."""


@analysis(title="Transfers")
def analyze(
    kernels: Annotated[LargeTable, _KERNELS], steps: pd.DataFrame, config: Config
) -> Result:
    """How many copies and sets run, of how many bytes, how long and how fast?

    Bandwidth is bytes over the sum of the durations: what one transfer gets while it runs.
    Covered is the union, and its share is of the step time on the slowest rank. Pageable or
    pinned is the CPU's side, as the trace names it. Warm-up steps are left out.
    """
    moves = kernels.where(lambda rows: rows["kind"].isin(("copy", "set")).to_numpy())
    on_gpu = step_spans(kernels)
    if moves.empty:
        reason = NO_GPU_WORK if on_gpu.empty else "no copy or set was recorded"
        return Result.abstain("transfers", reason)
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    rows = _counted(_described(moves), windows)
    if rows.empty:
        return Result.abstain("transfers", "none lies in the steps that count")
    total_ns = int(with_clock(windows)["step_time_ns"].sum())
    by_direction = _summary(rows, ["direction", "host_memory"])
    by_direction["covered_share"] = by_direction["covered_ns"] / max(total_ns, 1)
    return Result(
        metrics=_metrics(rows, total_ns),
        tables=_tables(rows, by_direction, config),
        charts=_charts(),
        abstentions=(*missing, *_abstentions(rows)),
    )


def _described(moves: pd.DataFrame) -> pd.DataFrame:
    """Return the transfers with duration, direction and kind of host memory."""
    # CUDA and ROCm write "Memcpy HtoD (Pageable -> Device)"; decided once per distinct name.
    names = moves["name"].astype("category")
    kinds = np.array([_host_memory(str(name)) for name in names.cat.categories] + [_UNKNOWN])
    direction = moves["copy_kind"].astype(object).replace("", _UNKNOWN)
    return moves.assign(
        direction=np.where(moves["kind"] == "set", _SET, direction),
        host_memory=np.where(
            direction.isin(("HtoD", "DtoH")), kinds[names.cat.codes.to_numpy()], ""
        ),
        duration_ns=moves["end_ns"] - moves["start_ns"],
        known_bytes=moves["size_bytes"].clip(lower=0),
        known_ns=(moves["end_ns"] - moves["start_ns"]).where(moves["size_bytes"] >= 0, 0),
    )


def _host_memory(name: str) -> str:
    return next((kind.lower() for kind in _MEMORY if kind in name), _UNKNOWN)


def _counted(rows: pd.DataFrame, windows: pd.DataFrame) -> pd.DataFrame:
    if (windows["step"] < 0).all():
        return rows
    key = [*WHERE, "step"]
    return rows.merge(windows[key].drop_duplicates(), on=key)


def _summary(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return one row per `key`, the one with most time first."""
    groups = rows.groupby(key, observed=True)
    size, known = groups["known_bytes"].sum(), groups["known_ns"].sum()
    bandwidth = rows["size_bytes"].where(rows["size_bytes"] >= 0) / rows["duration_ns"].where(
        rows["duration_ns"] > 0
    )
    rates = bandwidth.groupby([rows[name] for name in key], observed=True)
    covered = _covered_ns(rows, key)
    found = pd.DataFrame(
        {
            "count": groups.size(),
            "size_bytes": size,
            "total_ns": groups["duration_ns"].sum(),
            "covered_ns": covered,
            "bandwidth_bytes_per_s": size / known.where(known > 0) * _NS_PER_S,
            "best_bytes_per_s": rates.max() * _NS_PER_S,
            "mean_bytes": size / groups.size(),
            "median_ns": groups["duration_ns"].median(),
        }
    )
    flat = found.rename_axis(key).reset_index()
    return flat.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _covered_ns(rows: pd.DataFrame, key: list[str]) -> "pd.Series[int]":
    """Return by `key` the ns of the union of the transfers on each device, summed over devices."""
    of_device = [*WHERE, "device", *(name for name in key if name not in WHERE)]
    device = np.asarray(rows.groupby(of_device, observed=True).ngroup(), dtype=np.int64)
    spans = intervals.intervals(rows["start_ns"], rows["end_ns"])
    numbers, first = np.unique(device, return_index=True)
    covered = rows.iloc[first][of_device].assign(
        covered_ns=intervals.covered(spans, device, len(numbers))
    )
    return covered.groupby(key, observed=True)["covered_ns"].sum()


def _tables(rows: pd.DataFrame, by_direction: pd.DataFrame, config: Config) -> dict[str, Table]:
    note = _note(rows)
    return {
        "by_direction": table(
            by_direction,
            title="Transfers by direction and CPU memory",
            note=note,
            limit=config.max_rows,
            sums=("count", "size_bytes", "total_ns"),
        ),
        "by_rank": table(
            _summary(rows, ["rank", "direction"]),
            title="Transfers of each rank",
            note=note,
            limit=config.max_rows,
        ),
        "over_time": table(
            _over_time(rows, config.points),
            title="Bandwidth over time",
            note="Mean over ranks of the first repeat; time from the first transfer of each.",
        ),
    }


def _over_time(rows: pd.DataFrame, points: int) -> pd.DataFrame:
    """Return the bandwidth of each direction in equal parts of the time, mean over ranks."""
    first = rows[(rows["repeat"] == rows["repeat"].min()) & (rows["size_bytes"] >= 0)]
    if first.empty:
        return pd.DataFrame(columns=["time_ns", "direction", "bandwidth_bytes_per_s"])
    origin = first.groupby("rank", observed=True)["start_ns"].transform("min")
    # Integers: beyond 2**53 ns a float has no next nanosecond.
    start = (first["start_ns"] - origin).to_numpy(np.int64)
    end = np.maximum((first["end_ns"] - origin).to_numpy(np.int64), start + 1)
    edges = np.linspace(0, max(end.max(), points), points + 1)
    ranks = first["rank"].nunique()
    parts = []
    for direction, indices in first.groupby("direction", observed=True).indices.items():
        size = first["size_bytes"].to_numpy(np.float64)[indices]
        moved = np.diff(_moved_before(edges, start[indices], end[indices], size))
        parts.append(
            pd.DataFrame(
                {
                    "time_ns": edges[:-1].astype(np.int64),
                    "direction": direction,
                    "bandwidth_bytes_per_s": moved / np.diff(edges) / ranks * _NS_PER_S,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _moved_before(
    edges: NDArray[np.float64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    size: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the bytes moved before each edge, if each transfer moves them evenly."""
    times = np.concatenate((start, end))
    rate = size / (end - start)
    order = np.argsort(times, kind="stable")
    slope = np.cumsum(np.concatenate((rate, -rate))[order])
    moved = np.r_[0, np.cumsum(slope[:-1] * np.diff(times[order]))]
    return np.asarray(np.interp(edges, times[order], moved), dtype=np.float64)


def _pageable_share(rows: pd.DataFrame) -> float:
    """Return the pageable share of the bytes between host and device; NaN if not known."""
    crossing = rows[rows["host_memory"].isin([kind.lower() for kind in _MEMORY])]
    size = crossing["known_bytes"]
    total = int(size.sum())
    return float(size[crossing["host_memory"] == "pageable"].sum() / total) if total else math.nan


def _metrics(rows: pd.DataFrame, total_ns: int) -> dict[str, Metric]:
    def bandwidth(direction: str) -> float:
        part = rows[rows["direction"] == direction]
        time = int(part["known_ns"].sum())
        return float(part["known_bytes"].sum() / time * _NS_PER_S) if time else math.nan

    values: tuple[tuple[str, float, str, Literal["lower", "higher"], str], ...] = (
        (
            "covered_share",
            _covered_ns(rows, ["repeat"]).sum() / max(total_ns, 1),
            "share",
            "lower",
            "Copies and sets, hidden or not, of the step time, mean over ranks",
        ),
        ("h2d_bytes_per_s", bandwidth("HtoD"), "bytes_per_s", "higher", "Bandwidth CPU to GPU"),
        ("d2h_bytes_per_s", bandwidth("DtoH"), "bytes_per_s", "higher", "Bandwidth GPU to CPU"),
        ("d2d_bytes_per_s", bandwidth("DtoD"), "bytes_per_s", "higher", "Bandwidth on the GPU"),
        (
            "pageable_share",
            _pageable_share(rows),
            "share",
            "lower",
            "Bytes from or to pageable memory, of those between CPU and GPU",
        ),
    )
    return {
        name: Metric(value=float(value), unit=unit, title=title, better=better)
        for name, value, unit, better, title in values
        if math.isfinite(value)
    }


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title="Time of transfers by direction",
            table="by_direction",
            x="direction",
            y=("total_ns",),
            color="host_memory",
        ),
        Chart(
            kind="line",
            title="Bandwidth over time",
            table="over_time",
            x="time_ns",
            y=("bandwidth_bytes_per_s",),
            color="direction",
        ),
    )


def _abstentions(rows: pd.DataFrame) -> tuple[Abstention, ...]:
    unsized = int((rows["size_bytes"] < 0).sum())
    unnamed = int((rows["host_memory"] == _UNKNOWN).sum())
    reasons = {
        "bandwidth of some transfers": unsized
        and f"the size of {unsized} of {len(rows)} was not recorded",
        "pageable or pinned": unnamed
        and agreeing(unnamed, "the trace does not name CPU memory of {} [copy|copies]"),
    }
    return tuple(Abstention(what=what, reason=str(text)) for what, text in reasons.items() if text)


def _note(rows: pd.DataFrame) -> str:
    return f"Sums over {ranks_and_repeats(rows)}, in the steps that count."
