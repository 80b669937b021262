"""Compute workload: instructions per cycle, and which pipes each measured kernel keeps busy."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    by_kernel,
    kernel_of,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Chart, Result, table
from profkit.core.settings import Settings

_OF_PEAK = "avg.pct_of_peak_sustained_active"
_COLUMNS = {
    "instructions_per_cycle": ["sm__inst_executed.avg.per_cycle_active"],
    "issue_slots_busy_percent": [f"sm__inst_issued.{_OF_PEAK}", f"sm__issue_active.{_OF_PEAK}"],
    "multiprocessor_busy_percent": [f"sm__instruction_throughput.{_OF_PEAK}"],
}
_PIPE = re.compile(
    r"sm__(?:inst_executed_)?pipe_(?P<pipe>\w+?)(?P<cycles>_cycles_active)?"
    r"\.avg\.pct_of_peak_sustained_(?:active|elapsed)"
)
_SECTIONS = ("ComputeWorkloadAnalysis", "InstructionStats", "SpeedOfLight_RooflineChart")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/compute_workload.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Compute workload")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """How many instructions does each kernel run per cycle, and on which pipes?

    Issue slots are the chances of the schedulers to issue an instruction: what is not used was
    waited for. A pipe runs one kind of work: fma multiplies and adds in fp32, alu does integers and
    logic, xu special functions and conversions, lsu loads and stores, tensor matrix products. Of
    the metrics of a pipe the largest is shown: cycles in which it was active, or instructions.
    """
    if measured_kernels.empty:
        return NOTHING
    pipes = _pipes(kernel_metrics["metric"].astype(str).unique())
    rows = by_kernel(measured_kernels, kernel_metrics, {**_COLUMNS, **_flat(pipes)})
    used = _used(rows, pipes)
    rows = rows[["function", "grid", "block", "launches", "duration_ns", *_COLUMNS, "name"]]
    tables = {
        "kernels": shown(
            rows.assign(busiest_pipe=_busiest(used), busiest_pipe_percent=used.max(axis=1)),
            "Instructions of each kernel",
            limit=config.max_rows,
        ),
        "pipes": table(_per_pipe(rows, used), title="Use of each pipe", limit=20 * config.max_rows),
        **rules(measured_kernels, kernel_advice, _SECTIONS),
    }
    return Result(
        tables=tables,
        charts=_charts(has_pipes=bool(tables["pipes"].rows)),
        abstentions=unknown(rows, dict.fromkeys(_COLUMNS, "ComputeWorkloadAnalysis")),
    )


def _pipes(metrics: Iterable[str]) -> dict[str, list[str]]:
    """Return the recorded metrics of each pipe."""
    found: dict[str, list[str]] = {}
    for name in metrics:
        if match := _PIPE.fullmatch(name):
            found.setdefault(match["pipe"], []).append(name)
    return dict(sorted(found.items()))


def _flat(pipes: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [name] for names in pipes.values() for name in names}


def _used(rows: pd.DataFrame, pipes: dict[str, list[str]]) -> pd.DataFrame:
    """Return the use of each pipe by each kernel in percent: the largest of its metrics."""
    return pd.DataFrame(
        {pipe: rows[names].max(axis=1) for pipe, names in pipes.items()}, index=rows.index
    )


def _busiest(used: pd.DataFrame) -> list[str]:
    """Return the pipe that each kernel uses most; empty where none is known."""
    if used.empty:
        return [""] * len(used)
    best = used.fillna(-1.0).to_numpy(np.float64)
    names = [str(pipe) for pipe in used.columns]
    return [names[at] if row[at] > 0 else "" for row, at in zip(best, best.argmax(1), strict=True)]


def _per_pipe(rows: pd.DataFrame, used: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kernel and pipe that it uses."""
    labels = [f"{kernel_of(row)}" for _, row in rows.iterrows()]
    long = used.assign(kernel=labels).melt(
        id_vars="kernel", var_name="pipe", value_name="used_percent"
    )
    return long[long["used_percent"] > 0].reset_index(drop=True)


def _charts(*, has_pipes: bool) -> tuple[Chart, ...]:
    if not has_pipes:
        return ()
    return (
        Chart(
            kind="bar",
            title="Use of each pipe, of what it can sustain",
            table="pipes",
            x="pipe",
            y=("used_percent",),
            color="kernel",
        ),
    )
