"""Speed of light: how near each measured kernel comes to what compute and memory can sustain."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    DRAM,
    L2,
    NOTHING,
    bars,
    by_kernel,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Result
from profkit.core.settings import Settings

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_COLUMNS = {
    "compute_percent": [f"sm__throughput.{_OF_PEAK}"],
    "memory_percent": [f"gpu__compute_memory_throughput.{_OF_PEAK}"],
    "dram_percent": [*DRAM],
    "l2_percent": [L2],
    "l1_percent": ["l1tex__throughput.avg.pct_of_peak_sustained_active"],
    "sm_frequency_hz": ["gpc__cycles_elapsed.avg.per_second"],
    "dram_frequency_hz": ["dram__cycles_elapsed.avg.per_second"],
}
_SECTION = "SpeedOfLight"
_OF_OTHER_SECTIONS = {
    "fp64_percent": [
        f"sm__{counted}.avg.pct_of_peak_sustained_{of}"
        for counted in ("pipe_fp64_cycles_active", "inst_executed_pipe_fp64")
        for of in ("elapsed", "active")
    ],
    "waves": ["launch__waves_per_multiprocessor"],
}
"""What says more of a limit where it was measured: use of the pipe for double precision, and how
often the grid of a launch fills the GPU."""

_TITLE = "Throughput of compute and of memory, of what the GPU can sustain"


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
    """How near is the throughput of compute and of memory to what the GPU could sustain?

    Each is the share of its busiest part: one full pipe is enough for 100 %. Where both are low,
    the kernel waits (latency); where one is high it is the limit. High is not the same as good: a
    kernel that does needless work fast is at the limit too.
    """
    if measured_kernels.empty:
        return NOTHING
    rows = by_kernel(measured_kernels, kernel_metrics, _COLUMNS | _OF_OTHER_SECTIONS)
    rows.insert(5, "limit", _limits(rows, config))
    tables = {
        "kernels": shown(rows, "Throughput of each kernel", limit=config.max_rows),
        **rules(measured_kernels, kernel_advice, [_SECTION]),
    }
    known = rows["compute_percent"].notna().any() and rows["memory_percent"].notna().any()
    return Result(
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
