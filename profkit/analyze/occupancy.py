"""Occupancy: how many warps each measured kernel has on a multiprocessor, and what limits them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    bars,
    by_kernel,
    mean_of,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Chart, Result
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/occupancy.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Occupancy")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """How many warps of each kernel are on a multiprocessor, of the most that there can be?

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


def _charts(rows: pd.DataFrame) -> tuple[Chart, ...]:
    columns = [
        column for column in ("theoretical_percent", "achieved_percent") if rows[column].any()
    ]
    return (bars("Theoretical and achieved occupancy", *columns),) if columns else ()
