"""Operators: calls, CPU and GPU time, memory and FLOPs, by name and by shapes of inputs."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze._operator_calls import DEVICE_MEMORY, DEVICE_TIME, HOST_MEMORY
from profkit.analyze._operator_sums import (
    BY_NAME,
    BY_SHAPE,
    MapSettings,
    joined,
    summed,
    sums_of_ranks,
)
from profkit.analyze.base import Mapped, analysis
from profkit.core.formatting import counted, ranks_and_repeats
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table

_ADD_UP = ("calls", "self_cpu_ns", "self_cpu_share", "self_device_ns", "self_device_share")
_PARTS = ("by_name", "by_shape", "lines", "steps", "captures", "has_memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(MapSettings):
    """Composed from ``conf/analysis/operators.yaml``."""

    max_rows: int = 200
    """Rows kept of each table, those with the most self time; more makes the report larger."""


@analysis(title="Operators", mapped_by=sums_of_ranks)
def analyze(mapped: Mapped, config: Config) -> Result:
    """Which operators take most calls, time, memory and FLOPs, as ``key_averages`` sums them?

    Self time leaves out nested operators and runtime calls. GPU time is the sum of the
    durations of the kernels that the operator launched, so kernels that run side by side both
    count. Memory is what was allocated less what was freed, on the operator's own thread.
    """
    parts = {name: pd.concat([one[name] for one in mapped.values()]) for name in _PARTS}
    if parts["captures"].empty:
        return Result.abstain("operators", "no operator was recorded on a CPU thread")
    steps = int(parts["steps"]["size"].sum())
    by_name = parts["by_name"].sort_values("kind", key=_last, kind="stable")
    by_name = _with_flops(summed(by_name, BY_NAME))
    totals = {kind: int(by_name[f"self_{kind}_ns"].sum()) for kind in ("cpu", "device")}
    by_name = _with_lines(_shown(by_name, totals, steps), parts["lines"])
    by_shape = _with_flops(summed(parts["by_shape"], BY_SHAPE))
    operators = by_shape[by_shape["kind"] == "operator"].drop(columns="kind")
    by_shape = _with_lines(_shown(joined([operators]), totals, steps), parts["lines"])
    shaped = bool((by_shape["input_shapes"] != "").any())
    note = _note(parts["captures"], steps)
    return Result(
        metrics=_metrics(by_name, steps),
        tables=_tables(by_name, by_shape if shaped else None, note, config),
        charts=_charts(by_name),
        abstentions=_abstentions(
            {
                "FLOPs, and costs by shape": not shaped
                and "no shape was recorded: set record_shapes",
                "memory of operators": not parts["has_memory"]["rows"].any()
                and "no allocation was recorded: set profile_memory",
                "costs per step": not steps and "no step was marked in the capture",
            }
        ),
    )


def _last(kinds: "pd.Series[str]") -> "pd.Series[int]":
    """Return numbers that put what is no operator after all operators, as in each part."""
    return kinds.map({"runtime": 1, "memory": 2}).fillna(0).astype(np.int64)


def _with_flops(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with FLOPs where those of all calls are known."""
    known = rows.pop("flops_calls") == rows["calls"]
    return rows.assign(flops=rows["flops"].where(known))


def _shown(rows: pd.DataFrame, totals: dict[str, int], steps: int) -> pd.DataFrame:
    """Return `rows` with shares of `totals` and means per step, the most costly first."""
    rows = rows.copy()
    for kind, total in totals.items():
        rows[f"self_{kind}_share"] = rows[f"self_{kind}_ns"] / total if total else np.nan
    if steps:
        rows["calls_per_step"] = rows["calls_in_steps"] / steps
        rows["self_cpu_per_step_ns"] = rows["self_cpu_in_steps_ns"] / steps
    # On a GPU the CPU may be idle: a row is costly if it is so on either.
    weight = rows[["self_cpu_share", "self_device_share"]].max(axis=1).fillna(0)
    return rows.iloc[np.argsort(-weight.to_numpy(), kind="stable")].reset_index(drop=True)


def _with_lines(rows: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with the line that has most time of each, where lines are known."""
    if lines.empty:
        return rows
    keys = [name for name in ("name", "input_shapes") if name in rows]
    spent = lines.groupby([*keys, "line"])["spent_ns"].sum()
    ordered = spent.sort_values(ascending=False, kind="stable").reset_index()
    most = ordered.drop_duplicates(keys)[[*keys, "line"]].astype(object)
    return rows.merge(most, how="left", on=keys).fillna({"line": ""})


def _tables(
    by_name: pd.DataFrame, by_shape: pd.DataFrame | None, note: str, config: Config
) -> dict[str, Table]:
    measures = _measures(by_name)
    tables = {
        "by_name": table(
            by_name[["name", "kind", *measures]],
            title="Operators by name",
            note=note,
            limit=config.max_rows,
            sums=_ADD_UP,
        )
    }
    if by_shape is not None:
        tables["by_shape"] = table(
            by_shape[["name", "input_shapes", *measures]],
            title="Operators by name and shapes of inputs",
            note=f"{note} A list of tensors is an input without a shape.",
            limit=config.max_rows,
            sums=_ADD_UP,
        )
    return tables


def _measures(by_name: pd.DataFrame) -> list[str]:
    """Return the columns to show: those of devices and of memory only where there are any."""
    always = ["calls", "calls_per_step", "self_cpu_ns", "self_cpu_share", "self_cpu_per_step_ns"]
    shown = [*(name for name in always if name in by_name), "total_cpu_ns"]
    for names in ([*DEVICE_TIME, "self_device_share"], HOST_MEMORY, DEVICE_MEMORY):
        shown += names if by_name[names].fillna(0).any(axis=None) else []
    return [*(["line"] if "line" in by_name else []), *shown, "flops"]


def _note(cpu_ops: pd.DataFrame, steps: int) -> str:
    what = f"Sums over {ranks_and_repeats(cpu_ops)}; shares are of all self time"
    return (
        f"{what}; per step: mean over {counted(steps, 'step')} of a rank." if steps else f"{what}."
    )


def _metrics(by_name: pd.DataFrame, steps: int) -> dict[str, Metric]:
    if not steps:
        return {}
    rows = by_name[by_name["kind"] == "operator"]
    metrics = {
        "calls_per_step": Metric(
            value=float(rows["calls_per_step"].sum()),
            unit="count",
            title="Operator calls per step and rank",
            better="lower",
        ),
        "self_cpu_per_step_ns": Metric(
            value=float(rows["self_cpu_per_step_ns"].sum()),
            unit="ns",
            title="Self CPU time of operators per step and rank",
            better="lower",
        ),
    }
    if rows["flops"].notna().any():
        metrics["flops_per_step"] = Metric(
            value=float(rows["flops"].sum() / steps),
            unit="flops",
            title="FLOPs per step and rank, of the operators that are counted",
        )
    return metrics


def _charts(by_name: pd.DataFrame) -> tuple[Chart, ...]:
    kinds = [("cpu", "Self CPU time by operator")]
    if by_name["self_device_ns"].any():
        kinds.insert(0, ("device", "Self GPU time by operator"))
    return tuple(
        Chart(
            kind="bar",
            title=title,
            table="by_name",
            x="name",
            y=(f"self_{kind}_ns",),
            horizontal=True,
        )
        for kind, title in kinds
    )


def _abstentions(unknown: dict[str, str | bool]) -> tuple[Abstention, ...]:
    return tuple(
        Abstention(what=what, reason=str(reason)) for what, reason in unknown.items() if reason
    )
