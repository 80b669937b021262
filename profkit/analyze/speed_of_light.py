"""Speed of light: how near each measured kernel comes to what compute and memory can sustain."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    bars,
    by_kernel,
    evidence,
    kernel_of,
    rules,
    shown,
    unknown,
)
from profkit.core.formatting import duration
from profkit.core.result import Finding, Result, Severity
from profkit.core.settings import Settings

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_COLUMNS = {
    "compute_percent": [f"sm__throughput.{_OF_PEAK}"],
    "memory_percent": [f"gpu__compute_memory_throughput.{_OF_PEAK}"],
    "dram_percent": [f"gpu__dram_throughput.{_OF_PEAK}", f"dram__throughput.{_OF_PEAK}"],
    "l2_percent": [f"lts__throughput.{_OF_PEAK}"],
    "l1_percent": ["l1tex__throughput.avg.pct_of_peak_sustained_active"],
    "sm_frequency_hz": ["gpc__cycles_elapsed.avg.per_second"],
    "dram_frequency_hz": ["dram__cycles_elapsed.avg.per_second"],
}
_SECTION = "SpeedOfLight"
_WORDS = {"balanced": "compute and memory alike"}
_TRY = {
    "latency": "Neither is busy: look at what the warps wait for, at the occupancy, and whether "
    "the grid fills the device; fusing small kernels gives each more to do.",
    "compute": "Compute is the limit: use tensor cores or a lower precision, or do less work; "
    "better memory access will not help.",
    "memory": "Memory is the limit: move fewer bytes by fusing kernels, by smaller types, or by "
    "reuse in caches; faster arithmetic will not help.",
    "balanced": "Compute and memory are both at work: only less of both makes it faster.",
}

_TITLE = "Throughput of compute and of memory, of what the device can sustain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/speed_of_light.yaml``."""

    busy_percent: float = 60.0
    """Throughput from which a unit counts as busy; where none is busy, latency is the limit."""

    balanced_percent: float = 10.0
    """Difference of the throughputs up to which a busy kernel counts as balanced."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Speed of light")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """Compare the throughput of compute and of memory with what the device could sustain.

    Each is the share of its busiest part: one full pipe is enough for 100 %. Where both are low,
    the kernel waits (latency); where one is high it is the limit. High is not the same as good: a
    kernel that does needless work fast is at the limit too.
    """
    if measured_kernels.empty:
        return NOTHING
    rows = by_kernel(measured_kernels, kernel_metrics, _COLUMNS)
    rows.insert(5, "limit", _limits(rows, config))
    tables = {
        "kernels": shown(rows, "Throughput of each kernel", limit=config.max_rows),
        **rules(measured_kernels, kernel_advice, [_SECTION]),
    }
    known = rows["compute_percent"].notna().any() and rows["memory_percent"].notna().any()
    return Result(
        findings=_findings(rows),
        tables=tables,
        charts=(bars(_TITLE, "compute_percent", "memory_percent"),) if known else (),
        abstentions=unknown(rows, dict.fromkeys(_COLUMNS, _SECTION)),
    )


def _limits(rows: pd.DataFrame, config: Config) -> "list[str]":
    """Return latency, compute, memory or balanced; empty where a throughput is not known."""
    limits = []
    for compute, memory in zip(rows["compute_percent"], rows["memory_percent"], strict=True):
        if not np.isfinite(compute + memory):
            limits.append("")
        elif max(compute, memory) < config.busy_percent:
            limits.append("latency")
        elif abs(compute - memory) <= config.balanced_percent:
            limits.append("balanced")
        else:
            limits.append("compute" if compute > memory else "memory")
    return limits


def _findings(rows: pd.DataFrame) -> tuple[Finding, ...]:
    """Return one finding for each limit: about the kernel that takes longest under it."""
    found = []
    rated = rows[rows["limit"] != ""].dropna(subset=["duration_ns"])
    for limit, alike in rated.groupby("limit", sort=False):
        first = alike.iloc[0]
        value = float(max(first["compute_percent"], first["memory_percent"]))
        found.append(
            Finding(
                severity=Severity.WARN if limit == "latency" else Severity.INFO,
                message=f"{kernel_of(first)} ({duration(first['duration_ns'])}) is limited by "
                f"{_WORDS.get(str(limit), str(limit))}: it uses "
                f"{first['compute_percent']:.0f} % of compute and {first['memory_percent']:.0f} % "
                f"of memory throughput; {len(alike)} of {len(rated)} measured kernels are like it.",
                metric="speed_of_light.throughput_percent",
                value=value,
                unit="percent",
                evidence=evidence(first),
                advice=_TRY[str(limit)],
            )
        )
    return tuple(found)
