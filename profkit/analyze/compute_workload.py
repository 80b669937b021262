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
    evidence,
    kernel_of,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Chart, Finding, Result, Severity, table
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
_PRECOMPUTE = (
    "Conversions, special functions or integer arithmetic are in the way: precompute indices, use "
    "approximate functions, convert less often."
)
# By a part of the name of the pipe; the first that fits is taken.
_TRY = {
    "tensor": "Matrix units are full: only a lower precision, sparsity or less work is faster.",
    "shared": "Matrix units are full: only a lower precision, sparsity or less work is faster.",
    "fma": "If this multiplies matrices, use TF32 or bf16, so that matrix units do it.",
    "fp": "If this multiplies matrices, use TF32 or bf16, so that matrix units do it.",
    "xu": _PRECOMPUTE,
    "alu": _PRECOMPUTE,
    "lsu": "Fewer, wider loads and stores (vectors of 16 bytes) need fewer instructions.",
}
_SECTIONS = ("ComputeWorkloadAnalysis", "InstructionStats", "SpeedOfLight_RooflineChart")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/compute_workload.yaml``."""

    full_percent: float = 80.0
    """Use of a pipe from which it counts as the limit of a kernel."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Compute workload")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """Show how many instructions each kernel runs per cycle, and on which pipes.

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
        findings=_findings(rows, used, config),
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


def _findings(rows: pd.DataFrame, used: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    most = used.max(axis=1).to_numpy(np.float64)
    full = np.flatnonzero(most >= config.full_percent)
    if not len(full):
        return ()
    first, pipe = rows.iloc[full[0]], _busiest(used)[full[0]]
    return (
        Finding(
            severity=Severity.INFO,
            message=f"{kernel_of(first)} keeps the pipe {pipe} {most[full[0]]:.0f} % busy, which "
            "is its limit.",
            metric="compute_workload.busiest_pipe_percent",
            value=float(most[full[0]]),
            unit="percent",
            evidence=evidence(first) | {"pipe": pipe},
            advice=_advice(pipe),
        ),
    )


def _advice(pipe: str) -> str:
    """Return the advice for a kernel that `pipe` limits."""
    return next((advice for part, advice in _TRY.items() if part in pipe), _TRY["lsu"])


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
