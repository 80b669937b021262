"""Kernel details: time, operator, module, roofline, counters and advice in one row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd

from profkit.analyze._launch_order import attributed
from profkit.analyze.base import (
    NO_GPU_WORK,
    ByToolIfAny,
    ByToolOrOther,
    Columns,
    LargeByToolIfAny,
    LargeByToolOrOther,
    analysis,
)
from profkit.analyze.costs.attribution import OPS
from profkit.analyze.costs.roofline import KERNEL, compute_kernels
from profkit.analyze.shared import calltree, hierarchical_roofline
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.measured_kernels import WHERE, by_kernel, kernel_of, launches
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import step_windows
from profkit.core.formatting import agreeing, shortened
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.tables.kernel_names import signature

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_COUNTERS = {
    "measured_ns": ["gpu__time_duration.sum"],
    "compute_percent": [f"sm__throughput.{_OF_PEAK}"],
    "memory_percent": [f"gpu__compute_memory_throughput.{_OF_PEAK}"],
    "occupancy_percent": ["sm__warps_active.avg.pct_of_peak_sustained_active"],
    "registers": ["launch__registers_per_thread"],
}
_ORDER = (
    *("kernel", "total_ns", "time_share", "calls", "calls_per_step", "mean_ns"),
    *("operator", "operators", "module", "modules", "bound", "roofline_share"),
    *("measured_ns", "measured_roof", "measured_roofline_share", "compute_percent"),
    *("memory_percent", "occupancy_percent", "registers", "measured_launches"),
    *("estimated_speedup_percent", "advice", "name"),
)
_LAUNCHED = Columns(
    "rank repeat op step name kind copy_kind start_ns end_ns correlation grid block module phase"
)
_KINDS = {"optimisation": 0, "warning": 1, "error": 2, "information": 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/kernel_view.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_rows: int = 200
    """Kernels kept, those with most time."""


@analysis(title="Kernel details")
def analyze(  # noqa: PLR0913, PLR0917 - each names a table
    hardware: Hardware,
    config: Config,
    kernels: Annotated[LargeByToolOrOther, _LAUNCHED] = None,
    measured_kernels: ByToolOrOther = None,
    cpu_ops: Annotated[LargeByToolIfAny, OPS] = None,
    steps: ByToolIfAny = None,
    kernel_metrics: ByToolIfAny = None,
    kernel_advice: ByToolIfAny = None,
) -> Result:
    """What do all tools say of each compute kernel and shape?

    Calls, time, operators and modules are those of the trace; counters and advice are Nsight
    Compute's. They are joined where name and shape are the same, spelling of demanglers aside, and
    left apart where several kernels fit. A single launch that was measured belongs to the operator
    that launches this kernel and shape, or where several do to that of the launch with the same
    place in the step. Times that Nsight Compute measured are at the clocks that
    it held. The share of time is of all compute kernels.
    """
    launched, ops = _first_large(kernels), _first_large(cpu_ops)
    traced, missing = _traced(launched, ops, _first(steps), hardware, config.skip_first)
    counted = _counted(_first(measured_kernels), kernel_metrics, _first(kernel_advice))
    if traced.empty and counted.empty:
        is_unused = measured_kernels is None and not any(launched.groups())
        reason = NO_GPU_WORK if is_unused else "no compute kernel was recorded or measured"
        return Result.abstain("kernels", reason)
    rows, apart = _joined(traced, counted)
    located = counted
    if len(counted):
        located = _located(_first(measured_kernels), launched, ops)
    return Result(
        metrics=_metrics(rows, traced, counted),
        tables=_tables(rows, located, config.max_rows),
        abstentions=(*missing, *apart, *_lacking(traced, counted)),
    )


def _tables(rows: pd.DataFrame, located: pd.DataFrame, limit: int) -> dict[str, Table]:
    tables = {
        "kernels": table(
            _shown(rows),
            title="Kernels by time",
            note="Of several operators or modules the one with most time is named.",
            limit=limit,
        )
    }
    if len(located):
        tables["launches"] = table(
            located,
            title="Measured launches by operator, module and step",
            note="By order holds as long as ncu skipped no launch of the step.",
            limit=limit,
        )
    return tables


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that have a value, from costs to advice."""
    labels = [kernel_of(row) for _, row in rows.iterrows()]
    names = [shortened(str(name), 300) for name in rows["name"]]
    made = rows.assign(kernel=labels, name=names).reindex(columns=list(_ORDER))
    known = [name for name in made if (made[name].notna() & (made[name] != "")).any()]
    return made[known]


def _first(tables: ByToolIfAny) -> pd.DataFrame:
    """Return the first table that has rows; an empty one if none has."""
    return next((rows for rows in (tables or {}).values() if len(rows)), pd.DataFrame())


def _first_large(tables: LargeByToolIfAny) -> LargeTable:
    """Return the first table that has rows; an empty one if none has."""
    found = (table for table in (tables or {}).values() if any(table.groups()))
    return next(found, LargeTable.of(pd.DataFrame(columns=["rank"])))


def _traced(
    kernels: LargeTable,
    cpu_ops: LargeTable,
    steps: pd.DataFrame,
    hardware: Hardware,
    skip_first: int,
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return one row per kernel and shape of the trace, those with most time first."""
    if not any(kernels.groups()):
        return pd.DataFrame(), ()
    steps = (
        steps if len(steps) else pd.DataFrame(columns=[*WHERE[:2], "step", "start_ns", "end_ns"])
    )
    windows, missing = step_windows(steps, step_spans(kernels), skip_first)
    parts = list(_summed(kernels, cpu_ops, windows, hardware))
    if not parts:
        return pd.DataFrame(), missing
    rows = pd.concat(parts, ignore_index=True)
    groups = rows.groupby(KERNEL, sort=False)
    made = groups[["calls", "total_ns"]].sum()
    made.insert(0, "function", groups["function"].first())
    made = made.assign(
        weighted=groups["weighted"].sum(min_count=1), bound=groups["bound"].first()
    ).reset_index()
    made["time_share"] = made["total_ns"] / max(made["total_ns"].sum(), 1)
    # The one window of a trace without steps is not a step.
    made["calls_per_step"] = made["calls"] / ((windows["step"] >= 0).sum() or np.nan)
    made["mean_ns"] = made["total_ns"] / made["calls"]
    made["roofline_share"] = made["weighted"] / made["total_ns"].where(made["total_ns"] > 0)
    for name in ("operator", "module"):
        made = made.merge(_by_time(rows, name), on=KERNEL, how="left")
    made = made.sort_values("total_ns", ascending=False, ignore_index=True)
    return made.drop(columns="weighted").assign(key=_keys(made)), missing


def _summed(
    kernels: LargeTable, cpu_ops: LargeTable, windows: pd.DataFrame, hardware: Hardware
) -> Iterator[pd.DataFrame]:
    """Yield the sums of some ranks by kernel, shape, operator and module, as they first appear."""
    has_operators = any(cpu_ops.groups())
    for launched, ops in batches(kernels, cpu_ops):
        rows = compute_kernels(launched, ops, windows, hardware, has_operators=has_operators)
        if rows.empty:
            continue
        rows = rows.assign(operator=_operators(rows, ops), module=rows["module"].astype(object))
        rows["weighted"] = rows["roofline_share"] * rows["duration_ns"]
        groups = rows.groupby([*KERNEL, "operator", "module"], sort=False)
        made = (
            groups[["function", "bound"]]
            .first()
            .assign(
                calls=groups.size(),
                total_ns=groups["duration_ns"].sum(),
                weighted=groups["weighted"].sum(min_count=1),
            )
        )
        yield made.reset_index()


def _located(measured: pd.DataFrame, kernels: LargeTable, cpu_ops: LargeTable) -> pd.DataFrame:
    """Return the measured launches; no rows if operator and step are unknown for all of them."""
    rows = _measured_launches(measured, kernels, cpu_ops)
    return rows if ((rows["found"] != "") | (rows["step"] >= 0)).any() else rows.iloc[:0]


def _measured_launches(
    measured: pd.DataFrame, kernels: LargeTable, cpu_ops: LargeTable
) -> pd.DataFrame:
    """Return one row per measured launch, with operator, module and step, in order of launch."""
    columns = ["launch", "function", "operator", "module", "step", "found", "grid", "block", "name"]
    text = dict.fromkeys(KERNEL, object)
    own = launches(measured).drop_duplicates("launched").sort_values(WHERE, ignore_index=True)
    own = own.astype({**text, "function": object, "ranges": object})
    own = own.assign(key=_keys(own), launch=range(len(own)))
    found = []
    for rank in own["rank"].unique().tolist():
        of_rank = own[own["rank"] == rank]
        traced = kernels.of_ranks({rank})
        traced = traced[traced["kind"] == "compute"] if len(traced) else traced
        found.append(attributed(of_rank, _launched(traced, cpu_ops.of_ranks({rank}))))
    made: pd.DataFrame = pd.concat([own, pd.concat(found)], axis=1)[columns]
    return made


def _launched(traced: pd.DataFrame, cpu_ops: pd.DataFrame) -> pd.DataFrame:
    """Return the compute kernels of the first repeat in order, with their key and operator."""
    if traced.empty:
        return pd.DataFrame(columns=["key", "operator", "module", "step", "phase"])
    rows = traced[(traced["repeat"] == traced["repeat"].min()).to_numpy()]
    rows = rows.sort_values(["start_ns", "correlation"], ignore_index=True)
    rows = rows.astype(dict.fromkeys(KERNEL, object))
    made: pd.DataFrame = rows.assign(key=_keys(rows), operator=_operators(rows, cpu_ops))
    return made


def _operators(rows: pd.DataFrame, cpu_ops: pd.DataFrame) -> "pd.Series[Any]":
    """Return the operator that launched each kernel; empty where none is known."""
    if cpu_ops.empty:
        return pd.Series("", index=rows.index, dtype=object)
    launcher = calltree.rows_of(cpu_ops, rows)
    found = cpu_ops["name"].iloc[launcher].astype(object).where(launcher >= 0, "")
    return pd.Series(found.to_numpy(), index=rows.index)


def _by_time(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return for each kernel the value of `name` with most time, and how many there are."""
    sums = rows.groupby([*KERNEL, name], sort=False)["total_ns"].sum().reset_index()
    sums = sums.sort_values("total_ns", ascending=False)
    groups = sums[sums[name] != ""].groupby(KERNEL, sort=False)[name]
    return pd.DataFrame({name: groups.first(), f"{name}s": groups.size()}).reset_index()


def _counted(
    measured: pd.DataFrame, kernel_metrics: ByToolIfAny, advice: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per kernel and shape that Nsight Compute measured."""
    # Counters of torch.profiler are of other kernels.
    metrics = (kernel_metrics or {}).get("ncu")
    if measured.empty or metrics is None:
        return pd.DataFrame()
    rows = by_kernel(measured, metrics, {**_COUNTERS, **hierarchical_roofline.columns()})
    position = hierarchical_roofline.positions(rows)
    made = rows[["name", "function", "grid", "block", "launches", *_COUNTERS]].assign(
        measured_roof=position["bound"], measured_roofline_share=position["roof_share"]
    )
    made = made.rename(columns={"launches": "measured_launches"})
    made = made.merge(_advice(measured, advice), on=KERNEL, how="left")
    return made.assign(key=_keys(made))


def _advice(measured: pd.DataFrame, advice: pd.DataFrame) -> pd.DataFrame:
    """Return the weightiest advice for each kernel: the largest gain, else by kind."""
    if advice.empty:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in [*KERNEL, "advice"]})
    rows = advice.merge(measured[[*WHERE, *KERNEL]], on=WHERE)
    rows = rows.assign(order=rows["kind"].astype(object).map(_KINDS)).sort_values(
        ["speedup_percent", "order"], ascending=[False, True], na_position="last", kind="stable"
    )
    rows = rows.astype(dict.fromkeys([*KERNEL, "message"], object)).drop_duplicates(KERNEL)
    gain = rows["speedup_percent"].to_numpy(np.float64)
    return rows[KERNEL].assign(advice=rows["message"], estimated_speedup_percent=gain)


def _keys(rows: pd.DataFrame) -> list[str]:
    """Return a key that is the same with every tool: signature and shape of the kernel."""
    return [
        f"{signature(str(name))} {grid} {block}"
        for name, grid, block in rows[KERNEL].itertuples(index=False)
    ]


def _joined(
    traced: pd.DataFrame, counted: pd.DataFrame
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return the rows of both, joined where exactly one of each has the key."""
    if traced.empty or counted.empty:
        return (traced if counted.empty else counted), ()
    several = {
        key for rows in (traced, counted) for key in rows["key"][rows["key"].duplicated(keep=False)]
    }
    own = counted[~counted["key"].isin(several)].drop(columns=["name", "grid", "block", "function"])
    rows = traced.merge(own, on="key", how="left")
    alone = counted[~counted["key"].isin(set(traced["key"]) - several)]
    rows = pd.concat([rows, alone], ignore_index=True)
    both = several & set(traced["key"]) & set(counted["key"])
    if not both:
        return rows, ()
    reason = "more than one kernel of this name and shape was traced or measured: left apart"
    return rows, (Abstention(what=agreeing(len(both), "counters of {} kernel[s]"), reason=reason),)


def _metrics(rows: pd.DataFrame, traced: pd.DataFrame, counted: pd.DataFrame) -> dict[str, Metric]:
    if traced.empty or counted.empty:
        return {}
    both = rows[rows["measured_ns"].notna() & rows["total_ns"].notna()]
    return {
        "measured_share": Metric(
            value=float(both["total_ns"].sum() / max(traced["total_ns"].sum(), 1)),
            unit="share",
            title="Time of the kernels whose counters were read, of that of all compute kernels",
            better="higher",
        )
    }


def _lacking(traced: pd.DataFrame, counted: pd.DataFrame) -> tuple[Abstention, ...]:
    if traced.empty:
        reason = "no trace of this run has kernels: add +tool=torch_profiler"
        return (Abstention(what="calls, operators and modules", reason=reason),)
    if counted.empty:
        reason = "Nsight Compute measured none of them: add +tool=ncu where there is a GPU"
        return (Abstention(what="counters and advice", reason=reason),)
    return ()
