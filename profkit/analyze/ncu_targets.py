"""Worth measuring: kernels that Nsight Compute should look at, by their time and their headroom."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.costs.attribution import OPS
from profkit.analyze.costs.roofline import KERNEL, compute_kernels
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import step_windows
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Metric, Result, table
from profkit.core.settings import Settings

_SHAPE = ["grid", "block", "shared_memory_bytes"]
_LAUNCHED = Columns(
    "rank repeat op step name kind copy_kind start_ns end_ns correlation grid block"
    " shared_memory_bytes"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/ncu_targets.yaml``."""

    unknown_headroom: float = 0.5
    """Share of its time that a kernel could save as far as is known, where nothing is known."""

    max_targets: int = 40
    """Kernels kept, those with most time."""


@analysis(title="Nsight Compute candidates")
def analyze(
    kernels: Annotated[LargeTable, _LAUNCHED],
    cpu_ops: Annotated[LargeTable, OPS],
    steps: pd.DataFrame,
    hardware: Hardware,
    config: Config,
) -> Result:
    """Which compute kernels could save most in a step: their time times their headroom?

    Headroom is what lies above the roofline share of the operator that launched the kernel.
    Launches of one kernel and shape count together, communication never. Nsight Compute filters by
    function, and counts launches by shape or in order: the counts say how many launches it then
    measures to meet each kernel down to that row once. With ``tools.ncu.targets=auto`` it measures
    as many of these as its budget allows.
    """
    on_gpu = step_spans(kernels)
    windows, missing = step_windows(steps, on_gpu, skip_first=0)
    rows = _of_first_rank(kernels, cpu_ops, windows, hardware)
    if rows.empty:
        reason = NO_GPU_WORK if on_gpu.empty else "no compute kernel was recorded"
        return Result.abstain("Nsight Compute candidates", reason)
    launched, step = _one_step(rows)
    ranked = _ranked(launched, config)
    counted = pd.DataFrame(_counts(launched, ranked), index=ranked.index)
    shown = ranked.assign(**{name: counted[name] for name in counted.columns})
    metrics = {
        "kernels": Metric(value=len(ranked), unit="count", title="Kernels and shapes by GPU time")
    }
    if step >= 0:
        metrics["step"] = Metric(value=step, unit="id", title="Step that they are counted in")
    return Result(
        metrics=metrics,
        tables={"targets": table(shown, title="Kernels by what they could save in a step")},
        abstentions=(*missing, *_abstentions(ranked)),
    )


def _of_first_rank(
    kernels: LargeTable, cpu_ops: LargeTable, windows: pd.DataFrame, hardware: Hardware
) -> pd.DataFrame:
    """Return the compute kernels of the lowest rank that has any in the steps."""
    has_operators = any(cpu_ops.groups())
    for rank in sorted({rank for group in kernels.groups() for rank in group}):
        own = (kernels.of_ranks({rank}), cpu_ops.of_ranks({rank}))
        rows = compute_kernels(*own, windows, hardware, has_operators=has_operators)
        if len(rows):
            return rows
    return pd.DataFrame()


def _one_step(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the launches of the step with most of them, in order, and its number (-1: none)."""
    rows = rows[rows["repeat"] == rows["repeat"].min()]
    counts = rows["step"].value_counts().sort_index(kind="stable")
    step = int(counts.index[int(counts.to_numpy().argmax())])
    of_step = rows[rows["step"] == step] if step >= 0 else rows
    return of_step.sort_values(["start_ns", "correlation"], ignore_index=True), step


def _ranked(launched: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return one row per kernel and shape, those that could save most first."""
    known = launched.assign(
        headroom=(1 - launched["roofline_share"]).clip(0, 1).fillna(config.unknown_headroom),
        weighted=launched["roofline_share"] * launched["duration_ns"],
    )
    known["saved_ns"] = known["duration_ns"] * known["headroom"]
    groups = known.groupby(KERNEL, sort=False)
    made = groups.agg(
        function=("function", "first"),
        launches=("duration_ns", "size"),
        total_ns=("duration_ns", "sum"),
        could_save_ns=("saved_ns", "sum"),
        weighted=("weighted", lambda values: values.sum(min_count=1)),
    ).reset_index()
    made["roofline_share"] = made["weighted"] / made["total_ns"].where(made["total_ns"] > 0)
    order = made.sort_values("could_save_ns", ascending=False, ignore_index=True)
    columns = ["function", "grid", "block", "launches", "total_ns", "roofline_share"]
    return order.head(config.max_targets)[[*columns, "could_save_ns", "name"]]


def _counts(launched: pd.DataFrame, ranked: pd.DataFrame) -> list[dict[str, int]]:
    """Return how many launches ncu measures to reach the first row, the first two and so on.

    Counting by shape, ncu counts the launches of each shape over all functions that pass its
    filter: the count must be so high that each of the kernels is measured. Counting in order, it
    measures all launches up to that of the last kernel.
    """
    index = pd.MultiIndex.from_frame(ranked[KERNEL]).get_indexer(
        pd.MultiIndex.from_frame(launched[KERNEL])
    )
    functions, shapes = launched["function"], launched.groupby(_SHAPE, sort=False).ngroup()
    found = []
    for last in range(len(ranked)):
        passed = functions.isin(ranked["function"][: last + 1]).to_numpy()
        wanted = index[passed]
        in_shape = shapes[passed].groupby(shapes[passed]).cumcount().to_numpy() + 1
        first = ~pd.Series(wanted).duplicated().to_numpy() & (wanted >= 0) & (wanted <= last)
        count_by_shape = int(in_shape[first].max())
        in_order = int(np.flatnonzero(first).max()) + 1
        sizes = shapes[passed].value_counts()
        found.append(
            {
                "count_by_shape": count_by_shape,
                "measured_by_shape": int(sizes.clip(upper=count_by_shape).sum()),
                "count_in_order": in_order,
                "measured_in_order": in_order,
            }
        )
    return found


def _abstentions(ranked: pd.DataFrame) -> tuple[Abstention, ...]:
    unknown = int(ranked["roofline_share"].isna().sum())
    if not unknown:
        return ()
    what = f"headroom of {unknown} of {len(ranked)} kernels"
    reason = "cost of their operator, or peak of the GPU, is not known: half is assumed"
    return (Abstention(what=what, reason=reason),)
