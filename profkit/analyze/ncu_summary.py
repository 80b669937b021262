"""Measured kernels: duration, throughput, launch and estimated gain of each, side by side."""

from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    SHAPE,
    WHERE,
    bars,
    by_kernel,
    launches,
    mean_of,
    rules,
    shown,
)
from profkit.core.result import Abstention, Metric, Result
from profkit.core.settings import Settings

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_COLUMNS = {
    "compute_percent": [f"sm__throughput.{_OF_PEAK}"],
    "memory_percent": [f"gpu__compute_memory_throughput.{_OF_PEAK}"],
    "registers": ["launch__registers_per_thread"],
    "waves": ["launch__waves_per_multiprocessor"],
    "cycles": ["gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"],
    "sm_frequency_hz": ["gpc__cycles_elapsed.avg.per_second"],
    "passes": ["profiler__replayer_passes"],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/ncu_summary.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Measured kernels")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """How long does each kernel take that Nsight Compute measured, how near to the GPU's limits?

    Throughputs are shares of what the busiest unit of compute or of memory could sustain. The
    estimated speed-up is the largest that one of the tool's rules states for the whole kernel; the
    rules overlap, so gains do not add up. Durations are at the clocks that the capture was set to
    hold, by default the base clocks, and so longer than in a real run.
    """
    if measured_kernels.empty:
        return NOTHING
    rows = by_kernel(measured_kernels, kernel_metrics, _COLUMNS)
    rows = rows.merge(_gains(measured_kernels, kernel_advice), on=["name", *SHAPE], how="left")
    rows.insert(5, "estimated_speedup_percent", rows.pop("estimated_speedup_percent"))
    return Result(
        metrics=_metrics(rows),
        tables={
            "kernels": shown(rows, "Measured kernels", limit=config.max_rows, with_durations=True),
            **rules(measured_kernels, kernel_advice),
        },
        charts=(bars("Duration of each measured kernel", "duration_ns"),)
        if rows["duration_ns"].notna().any()
        else (),
        abstentions=_abstentions(rows),
    )


def _gains(measured_kernels: pd.DataFrame, kernel_advice: pd.DataFrame) -> pd.DataFrame:
    """Return the largest gain of the whole kernel that a rule estimates, by kernel and shape."""
    whole = kernel_advice[kernel_advice["speedup_scope"].astype(str) == "global"]
    measured = launches(measured_kernels)[[*WHERE, "name", *SHAPE]]
    rows = measured.merge(whole[[*WHERE, "speedup_percent"]], on=WHERE, how="left")
    rows = rows.astype(dict.fromkeys(["name", *SHAPE], object))
    gains = rows.groupby(["name", *SHAPE], sort=False)["speedup_percent"].max()
    return gains.rename("estimated_speedup_percent").reset_index()


def _metrics(rows: pd.DataFrame) -> dict[str, Metric]:
    metrics = {
        "kernels": Metric(value=len(rows), unit="count", title="Kernels and shapes measured")
    }
    for kind in ("compute", "memory"):
        metrics |= mean_of(rows, f"{kind}_percent", "percent", f"Throughput of {kind}", "higher")
    return metrics


def _abstentions(rows: pd.DataFrame) -> tuple[Abstention, ...]:
    if rows["estimated_speedup_percent"].notna().any():
        return ()
    reason = "no rule of this version of Nsight Compute estimates one for these kernels"
    return (Abstention(what="estimated speed-up", reason=reason),)
