"""Memory from step to step: what grows, and the line that allocates it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import PositiveInt

from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import WHERE
from profkit.core.result import Chart, Metric, Result, table
from profkit.core.settings import Settings

_LEAST_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_over_steps.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as three others remain: optimizers make their states there."""

    least_bytes: PositiveInt = 4096
    """Growth per step below which a line is not called a leak."""

    growing_share: float = 0.8
    """Share of the steps in which a line must have grown to be called a leak."""

    max_rows: PositiveInt = 50
    """Lines kept in the table."""


_CHARTS = (
    Chart(
        kind="line",
        title="Memory in use at the end of each step",
        table="totals",
        x="step",
        y=("live_bytes",),
        color="rank",
    ),
)


@analysis(title="Memory over steps")
def analyze(allocations: pd.DataFrame, steps: pd.DataFrame, config: Config) -> Result:
    """What is live at the end of each step, and which lines leave more after every step?

    A line leaks if what it allocated and has not freed grows in most of the steps that count;
    its growth is the mean over them. Caches that fill up look the same at first.
    """
    windows = _windows(allocations, steps)
    if windows.empty:
        reason = "no allocation was recorded within a step"
        return Result.abstain("memory over steps", reason)
    counted = _counted(windows, config.skip_first)
    if counted.groupby(WHERE, observed=True).size().max() < _LEAST_STEPS:
        return Result.abstain("growth from step to step", "fewer than three steps were recorded")
    levels = _levels(allocations, counted)
    growth = _growth(levels, config)
    totals = levels.groupby([*WHERE, "step"], observed=True)["live_bytes"].sum().reset_index()
    return Result(
        metrics={
            "growth_bytes": Metric(
                value=float(_per_step(totals)),
                unit="bytes",
                title="Growth of live memory per step, of the GPU that grows most",
                better="lower",
            )
        },
        tables={
            "growth": table(
                growth, title="Lines whose memory changes from step to step", limit=config.max_rows
            ),
            "totals": table(totals, title="Memory in use at the end of each step"),
        },
        charts=_CHARTS,
    )


def _windows(allocations: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return rank, repeat, device, step and end of the steps that overlap the history."""
    # Times that were not recorded are -1, and so is the start of what was live before.
    timed = allocations[(allocations["start_ns"] >= 0).to_numpy()]
    first = timed.groupby(WHERE, observed=True)["start_ns"].min().rename("first").reset_index()
    last = timed.groupby(WHERE, observed=True)[["start_ns", "end_ns"]].max().max(axis=1)
    known = first.merge(last.rename("last").reset_index(), on=WHERE)
    rows = steps.merge(known, on=["rank", "repeat"])
    inside = (rows["end_ns"] > rows["first"]) & (rows["start_ns"] < rows["last"])
    return rows[inside][[*WHERE, "step", "end_ns"]]


def _counted(windows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    kept = windows[(windows["step"] >= skip_first).to_numpy()]
    enough = kept.groupby(WHERE, observed=True).size()
    return kept if len(enough) and enough.min() >= _LEAST_STEPS else windows


def _levels(allocations: pd.DataFrame, windows: pd.DataFrame) -> pd.DataFrame:
    """Return the live bytes of each line at the end of each step."""
    parts = []
    for where, ends in windows.groupby(WHERE, observed=True):
        own = allocations[(allocations[WHERE] == list(where)).all(axis=1)]
        instants = ends["end_ns"].to_numpy(np.int64)
        for line, rows in own.groupby("line", observed=True):
            live = {"step": ends["step"].to_numpy(), "live_bytes": _live(rows, instants)}
            device = dict(zip(WHERE, where, strict=True))
            parts.append(pd.DataFrame({**device, "line": str(line) or "(not recorded)", **live}))
    return pd.concat(parts, ignore_index=True)


def _live(rows: pd.DataFrame, instants: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = rows["size_bytes"].to_numpy(np.int64)
    freed = rows["end_event"].to_numpy() >= 0
    started = _until(rows["start_ns"].to_numpy(np.int64), sizes, instants)
    return started - _until(rows["end_ns"].to_numpy(np.int64)[freed], sizes[freed], instants)


def _until(
    times: NDArray[np.int64], sizes: NDArray[np.int64], instants: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sum of the sizes up to each instant."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([[0], np.cumsum(sizes[order])])
    return np.asarray(sums[np.searchsorted(times[order], instants, side="right")])


def _growth(levels: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the lines whose memory differs between steps, the largest growth first."""
    key = [*WHERE, "line"]
    grouped = levels.sort_values("step").groupby(key, observed=True)["live_bytes"]
    rows = pd.DataFrame(
        {
            "first_bytes": grouped.first(),
            "last_bytes": grouped.last(),
            "steps": grouped.size(),
            "growing_share": grouped.agg(lambda live: float((np.diff(live) > 0).mean())),
        }
    )
    rows["per_step_bytes"] = (rows["last_bytes"] - rows["first_bytes"]) / (rows["steps"] - 1)
    enough = (rows["growing_share"] >= config.growing_share) & (
        rows["per_step_bytes"] >= config.least_bytes
    )
    rows["leaks"] = enough.map({True: "yes", False: "no"})
    changed = (grouped.max() != grouped.min()).to_numpy()
    return (
        rows[changed]
        .reset_index()
        .sort_values("per_step_bytes", ascending=False, ignore_index=True, kind="stable")
    )


def _per_step(totals: pd.DataFrame) -> float:
    grouped = totals.sort_values("step").groupby(WHERE, observed=True)["live_bytes"]
    change: Any = (grouped.last() - grouped.first()) / (grouped.size() - 1).clip(lower=1)
    return float(change.max())
