"""Occupancy: how many warps each measured kernel has on a multiprocessor, and what limits them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    about,
    bars,
    by_kernel,
    kernel_of,
    mean_of,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Chart, Finding, Result, Severity
from profkit.core.settings import Settings

_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
_COLUMNS = {
    "theoretical_percent": ["sm__maximum_warps_per_active_cycle_pct"],
    "achieved_percent": ["sm__warps_active.avg.pct_of_peak_sustained_active"],
    "warps_per_multiprocessor": ["sm__warps_active.avg.per_cycle_active"],
    "waves": ["launch__waves_per_multiprocessor"],
    "registers": ["launch__registers_per_thread"],
    "shared_memory_bytes": [
        "launch__shared_mem_per_block_allocated",
        "launch__shared_mem_per_block",
    ],
}
_TRY = {
    "registers": "Use fewer registers a thread (__launch_bounds__, maxnreg, smaller tiles, in "
    "Triton another num_warps), as long as nothing spills to local memory.",
    "shared memory": "Use less shared memory a block (smaller tiles, fewer pipeline stages), or "
    "carve more of the L1 cache out for it.",
    "warps": "The block size alone limits it: blocks of 128 to 256 threads fit more evenly.",
    "blocks": "Blocks are small: with more threads a block, more warps fit.",
    "barriers": "Use fewer barriers a block.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/occupancy.yaml``."""

    low_percent: float = 50.0
    """Theoretical occupancy below which its limit is reported."""

    lost_percent: float = 20.0
    """Percentage points between theoretical and achieved occupancy that are reported."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Occupancy")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """Show the warps of each kernel on a multiprocessor, of the most that there can be.

    The theoretical occupancy follows from registers, shared memory and block size; the achieved is
    the mean that was measured, lower where blocks end unevenly or the grid is small (waves below
    1). High occupancy hides latency and is no end in itself: matrix products run best with little.
    """
    if measured_kernels.empty:
        return NOTHING
    limits = {name.replace(" ", "_") + "_limit": [metric] for name, metric in _LIMITS.items()}
    rows = by_kernel(measured_kernels, kernel_metrics, {**_COLUMNS, **limits})
    rows.insert(7, "limit", _limiting(rows, list(limits)))
    wanted = dict.fromkeys(["theoretical_percent", "achieved_percent"], "Occupancy")
    return Result(
        findings=(*_low(rows, config), *_lost(rows, config), *_small(rows)),
        metrics=mean_of(rows, "achieved_percent", "percent", "Achieved occupancy"),
        tables={
            "kernels": shown(
                rows,
                "Occupancy of each kernel",
                "Limits are blocks per multiprocessor; the least of them holds.",
                config.max_rows,
            ),
            **rules(measured_kernels, kernel_advice, ["Occupancy", "LaunchStats"]),
        },
        charts=_charts(rows),
        abstentions=unknown(rows, wanted),
    )


def _limiting(rows: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return the limit that allows the fewest blocks, equal ones joined; empty where unknown."""
    values = rows[columns].to_numpy(np.float64)
    least = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=1, initial=np.inf)
    names = list(_LIMITS)
    return [
        " and ".join(name for name, value in zip(names, row, strict=True) if value == limit)
        if np.isfinite(limit)
        else ""
        for row, limit in zip(values, least, strict=True)
    ]


def _low(rows: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    low = rows[(rows["theoretical_percent"] < config.low_percent) & (rows["limit"] != "")]
    if low.empty:
        return ()
    first = low.iloc[0]
    limit = str(first["limit"])
    message = (
        f"{kernel_of(first)} can have {first['theoretical_percent']:.0f} % of the warps that fit a"
        f" multiprocessor: {limit} allow no more blocks."
    )
    advice = f"{_TRY[limit.partition(' and ')[0]]} It helps only kernels that latency limits."
    metric, severity = "occupancy.theoretical_percent", Severity.INFO
    return (about(first, metric, "percent", message, advice, severity=severity, limit=limit),)


def _lost(rows: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    lost = rows.assign(lost_percent=rows["theoretical_percent"] - rows["achieved_percent"])
    uneven = lost[lost["lost_percent"] >= config.lost_percent]
    if uneven.empty:
        return ()
    first = uneven.iloc[0]
    message = (
        f"{kernel_of(first)} reaches {first['achieved_percent']:.0f} % of the "
        f"{first['theoretical_percent']:.0f} % occupancy that its launch allows."
    )
    advice = (
        "Blocks of unequal length, or a last wave that is not full: more and smaller blocks, or a"
        " grid that fills whole waves."
    )
    return (about(first, "occupancy.lost_percent", "percent", message, advice),)


def _small(rows: pd.DataFrame) -> tuple[Finding, ...]:
    small = rows[rows["waves"] < 1]
    if small.empty:
        return ()
    first = small.iloc[0]
    message = (
        f"The grid of {kernel_of(first)} fills {first['waves']:.2f} waves: part of the device has"
        " nothing to do."
    )
    advice = (
        "A larger batch, smaller tiles or a split along the summed dimension (split-K) gives more"
        " blocks; or let kernels run side by side."
    )
    return (about(first, "occupancy.waves", "ratio", message, advice),)


def _charts(rows: pd.DataFrame) -> tuple[Chart, ...]:
    columns = [
        column for column in ("theoretical_percent", "achieved_percent") if rows[column].any()
    ]
    return (bars("Theoretical and achieved occupancy", *columns),) if columns else ()
