"""FLOPs: model and hardware FLOPs, MFU and HFU, and how near operators come to the roofline."""

import math
import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import analysis
from profkit.analyze.costs import PRODUCTS
from profkit.analyze.costs.attribution import KERNELS, OPS, OPTIMIZER, RECOMPUTATION, Costed, work
from profkit.analyze.costs.roofline import (
    by_kernel,
    by_shape,
    peak_name,
    roof,
    roofs,
    summed,
    tallied,
    tallied_kernels,
    with_roofline,
)
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.large_table import LargeTable, parts
from profkit.analyze.shared.ratio import ratio
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_times import StepTime, UnprofiledSteps, step_time
from profkit.analyze.shared.step_windows import step_windows, with_clock
from profkit.core.formatting import agreeing
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings

_RATED = ["calls", "flops", "bytes", "time_ns", "achieved_flops_per_s", "achieved_bytes_per_s",
          "flops_per_byte", "bound", "peak", "roofline_share"]  # fmt: skip
_CALL = ["name", "kind", "type", "input_shapes", "phase"]
_ALL = "all FLOPs of the model, and MFU"
_OF_ALL = ("model_ideal_ns", "hardware_ideal_ns", "achieved_flops_per_s", "mfu_share", "hfu_share")
"""Columns of ranks that mean nothing where only some FLOPs are known."""
_FLOPS, _MOSTLY = ("model_flops", "hardware_flops"), 0.5
_MULTIPLIES = re.compile(
    r"(?i)(?<!fb)gemm|conv|attn|attention|flash_|fmha|nvjet|cijk_|wgrad|dgrad|fprop"
)
_CONVENTION = (
    "Two operations per multiply-add; model FLOPs are those of matmul, convolution and attention, "
    "forward and backward, without what is computed again; causal attention counts in full. Other "
    "operators count one per element (normalisation and softmax five), for the roofline alone. "
    "Bytes: every input read once, every output written once; lists of tensors as fp32."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/flops.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    missed_share: float = 0.01
    """Share of the GPU time in matrix products of unknown shape above which there is no MFU."""

    max_rows: int = 200
    """Rows kept of each table, those with most time."""

    chart_points: int = 150
    """Operators and kernels each that the roofline chart shows, those with most time."""


@analysis(title="FLOPs and roofline")
def analyze(  # noqa: PLR0913, PLR0917 - parameters name what is read
    cpu_ops: Annotated[LargeTable, OPS],
    kernels: Annotated[LargeTable, KERNELS],
    steps: pd.DataFrame,
    hardware: Hardware,
    config: Config,
    unprofiled: UnprofiledSteps = None,
    causes: Result | None = None,
) -> Result:
    """How near do the FLOPs of a step, and the bytes moved, come to what the hardware can do?

    Model FLOPs are those of matmul, convolution and attention in forward and backward, two per
    multiply-add; hardware FLOPs add what activation checkpointing and fused attention compute
    again, where the trace tells. MFU and HFU are the time that these would take at the dense peak
    of their data types, as a share of the step time: that of the unprofiled run where there is one
    (tool ``baseline``). The roofline is the larger of FLOPs over that
    peak and of bytes over the bandwidth of memory, against the time of operators and kernels in
    the profiled run.
    """
    if not any(cpu_ops.groups()):
        return Result.abstain("FLOPs", "no operator was recorded on a CPU thread")
    shapes = (rows["input_shapes"] for rows in cpu_ops.narrowed(["input_shapes"]).portions())
    if not any((of_portion != "").any() for of_portion in shapes):
        return Result.abstain("FLOPs", "no shape was recorded: set record_shapes")
    has_kernels = any(kernels.groups())
    windows, missing = step_windows(
        steps, step_spans(kernels if has_kernels else cpu_ops), config.skip_first
    )
    sums = _summed(cpu_ops, kernels, windows, hardware, has_kernels=has_kernels)
    if sums.calls.empty:
        reason = "no operator that costs are known for ran in the steps that count"
        return Result.abstain("FLOPs", reason)
    clock = step_time(unprofiled, causes, with_clock(windows), config.skip_first)
    by_rank = _by_rank(windows, clock, sums.ranks)
    lost = _lost(sums, hardware, config)
    if any(one.what == _ALL for one in lost):
        unknown = _OF_ALL if _are_mostly_known(sums) else (*_OF_ALL, *_FLOPS)
        by_rank = by_rank.assign(**dict.fromkeys(unknown, np.nan))
    rated = by_shape(sums.calls, hardware)
    return Result(
        metrics=_metrics(by_rank, sums.calls, None if lost else clock),
        tables={
            "by_rank": _rank_table(by_rank, clock, hardware),
            **_tables(sums, rated, hardware, config),
        },
        charts=_charts(hardware, rated),
        abstentions=(*missing, *lost),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sums:
    """What is kept of the operators and kernels of all ranks."""

    calls: pd.DataFrame
    """Tallies of operators by `_CALL`, with ``model_flops``, and the time of calls of known FLOPs
    ``rated_ns``."""

    kernels: pd.DataFrame
    """Tallies of kernels, see `tallied_kernels`."""

    ranks: pd.DataFrame
    """FLOPs of each rank and their time at the peaks."""

    missed_share: float
    """Share of compute time in products that no operator of known cost launched."""


def _summed(
    cpu_ops: LargeTable,
    kernels: LargeTable,
    windows: pd.DataFrame,
    hardware: Hardware,
    *,
    has_kernels: bool,
) -> _Sums:
    calls, of_kernels, ranks = [], [], []
    missed = spent = 0
    for rows in parts({"cpu_ops": cpu_ops, "kernels": kernels}):
        costed = work(**rows, windows=windows, has_kernels=has_kernels)
        calls.append(_tallied(costed.calls))
        of_kernels.append(tallied_kernels(costed.calls, costed.kernels))
        ranks.append(_of_ranks(costed.calls, hardware))
        own_missed, own_spent = _missed_ns(costed)
        missed, spent = missed + own_missed, spent + own_spent
    return _Sums(
        calls=pd.concat(calls, ignore_index=True),
        kernels=pd.concat(of_kernels, ignore_index=True),
        ranks=pd.concat(ranks).groupby(level=0).sum(min_count=1),
        missed_share=missed / spent if spent else 0.0,
    )


def _tallied(counted: pd.DataFrame) -> pd.DataFrame:
    products = counted[counted["kind"].isin(PRODUCTS)]
    rows = counted.assign(
        model_flops=_model_flops(products).reindex(counted.index, fill_value=0.0),
        rated_ns=counted["time_ns"].where(counted["flops"].notna(), 0),
    )
    return tallied(rows, _CALL, ("model_flops", "rated_ns"))


def _of_ranks(counted: pd.DataFrame, hardware: Hardware) -> pd.DataFrame:
    """Return FLOPs of each rank, and their time at the peaks in ns."""
    products = counted[counted["kind"].isin(PRODUCTS)]
    peak = _peaks(products, hardware)
    model = _model_flops(products)
    executed = products["flops"].where(products["phase"] != OPTIMIZER, 0)
    return (
        products[["rank"]]
        .assign(
            model_flops=model,
            hardware_flops=executed,
            model_ideal_ns=model / peak * 1e9,
            hardware_ideal_ns=executed / peak * 1e9,
        )
        .groupby("rank", observed=True)
        .sum(min_count=1)
    )


def _by_rank(windows: pd.DataFrame, clock: StepTime, sums: pd.DataFrame) -> pd.DataFrame:
    """Return FLOPs per step, their time at the peaks in ns, MFU and HFU of each rank."""
    steps = windows.groupby("rank", observed=True).size()
    per_step = sums.reindex(steps.index).div(steps, axis=0)
    step_time_ns = clock.time_ns or np.nan
    return per_step.assign(
        achieved_flops_per_s=per_step["model_flops"] / step_time_ns * 1e9,
        mfu_share=per_step["model_ideal_ns"] / step_time_ns,
        hfu_share=per_step["hardware_ideal_ns"] / step_time_ns,
        step_time_ns=step_time_ns,
        steps=steps,
    ).reset_index()


def _model_flops(products: pd.DataFrame) -> "pd.Series[float]":
    own = ~products["phase"].isin([RECOMPUTATION, OPTIMIZER])
    return (products["flops"] - products["recomputed_flops"]).where(own, 0)


def _peaks(rows: pd.DataFrame, hardware: Hardware) -> NDArray[np.float64]:
    kinds_and_types = zip(rows["kind"], rows["type"], strict=True)
    names = [peak_name(kind, dtype, hardware) for kind, dtype in kinds_and_types]
    return np.array([hardware.peak_flops.get(name, np.nan) for name in names], dtype=np.float64)


def _lost(sums: _Sums, hardware: Hardware, config: Config) -> tuple[Abstention, ...]:
    """Return why MFU is unknown: products without FLOPs, types without peaks."""
    products = sums.calls[sums.calls["kind"].isin(PRODUCTS)]
    found = []
    lacking_flops = products["calls"] - products["flops_known"]
    if unknown := int(lacking_flops.sum()):
        counts = lacking_flops.groupby(products["name"], sort=False).sum()
        ordered = counts[counts > 0].sort_values(ascending=False, kind="stable")
        names = ", ".join(map(str, ordered.index[:3]))
        reason = agreeing(
            unknown,
            "{} call[s] of {names} [was|were] recorded without what [its|their] cost depends on",
            names=names,
        )
        found.append(Abstention(what=_ALL, reason=reason))
    if sums.missed_share > config.missed_share:
        reason = (
            f"{sums.missed_share:.1%} of the GPU time is in kernels that multiply matrices, but "
            "that no operator of known cost launched (CUDA graphs, compiled code, other libraries)"
        )
        found.append(Abstention(what=_ALL, reason=reason))
    if not hardware.peak_flops or not hardware.memory_bandwidth_bytes_per_s:
        reason = "the peaks of the hardware are not known: choose hardware= or measure them"
        found.append(Abstention(what="MFU, HFU and the roofline", reason=reason))
    elif lacking := _without_peak(products, hardware):
        reason = f"{hardware.name} states no peak for {lacking}"
        found.append(Abstention(what="MFU and HFU", reason=reason))
    if products.empty:
        reason = "no matmul, convolution or attention ran in the steps that count"
        found.append(Abstention(what=_ALL, reason=reason))
    return tuple(found)


def _are_mostly_known(sums: _Sums) -> bool:
    """Say whether the FLOPs that are known are at least most of them, by the time these take."""
    products = sums.calls[sums.calls["kind"].isin(PRODUCTS)]
    rated, spent = products["rated_ns"].sum(), products["time_ns"].sum()
    return bool(rated > _MOSTLY * spent and sums.missed_share < _MOSTLY)


def _without_peak(products: pd.DataFrame, hardware: Hardware) -> str:
    types = products[np.isnan(_peaks(products, hardware))]["type"]
    return ", ".join(sorted({str(dtype) or "an unknown type" for dtype in types}))


def _missed_ns(costed: Costed) -> tuple[int, int]:
    """Return the time in products that no operator of known cost launched, and all compute time."""
    kernels = costed.kernels[(costed.kernels["kind"] == "compute").to_numpy()]
    spent = (kernels["end_ns"] - kernels["start_ns"]).to_numpy(np.int64)
    says = named(kernels["name"], lambda name: bool(_MULTIPLIES.search(name)))
    missed = says & (kernels["call"] < 0).to_numpy()
    return int(spent[missed].sum()), int(spent.sum())


def _rank_table(by_rank: pd.DataFrame, clock: StepTime, hardware: Hardware) -> Table:
    return table(
        by_rank,
        title=f"FLOPs per step of each rank ({hardware.name})",
        note=f"Step time of {clock.of_run}. {_CONVENTION}",
    )


def _tables(
    sums: _Sums, shapes: pd.DataFrame, hardware: Hardware, config: Config
) -> dict[str, Table]:
    kernels = by_kernel(sums.kernels, hardware)
    return {
        "by_operator": _table(
            _by_operator(sums.calls, hardware),
            "FLOPs by operator and phase",
            config.max_rows,
        ),
        "by_shape": _table(
            shapes[["name", "input_shapes", "type", *_RATED, "lost_ns"]],
            "Roofline of operators by shapes of inputs",
            config.max_rows,
        ),
        "by_kernel": _table(
            kernels[["name", "type", *_RATED]], "Roofline of kernels", config.max_rows
        ),
        "roofline": _table(_points(shapes, kernels, hardware, config), "Points of the roofline"),
    }


def _table(rows: pd.DataFrame, title: str, limit: int | None = None) -> Table:
    return table(rows, title=title, note=_CONVENTION, limit=limit)


def _by_operator(counted: pd.DataFrame, hardware: Hardware) -> pd.DataFrame:
    keys = ["name", "phase", "kind", "type"]
    sums = summed(counted, keys)
    own = counted.groupby(keys)["model_flops"].sum().reset_index()
    rated = with_roofline(sums.merge(own, on=keys, how="left"), hardware)
    total = rated["time_ns"].sum()
    rated["time_share"] = rated["time_ns"] / total if total else np.nan
    return rated[["name", "phase", "type", "model_flops", "time_share", *_RATED]]


def _points(
    shapes: pd.DataFrame, kernels: pd.DataFrame, hardware: Hardware, config: Config
) -> pd.DataFrame:
    """Return the points of the roofline chart: operators, kernels and the roofs above them."""
    at = ["flops_per_byte", "achieved_flops_per_s"]
    parts = []
    for series, rows in (("operators", shapes), ("kernels", kernels)):
        shown = rows[(rows["flops"] > 0) & rows[at].notna().all(axis=1)].head(config.chart_points)
        parts.append(shown[["name", *at]].assign(series=series))
    points = pd.concat(parts, ignore_index=True)
    used = [name for name in shapes["peak"].unique() if name]
    if used and len(points) and hardware.memory_bandwidth_bytes_per_s:
        span = points["flops_per_byte"].min(), points["flops_per_byte"].max()
        lines = roofs(used, hardware, *span).assign(name="")
        points = pd.concat([points, lines], ignore_index=True)
    return points[["series", "name", *at]]


def _metrics(
    by_rank: pd.DataFrame, counted: pd.DataFrame, clock: StepTime | None
) -> dict[str, Metric]:
    """Return the metrics; without `clock`, those of which some FLOPs are not known are left out."""
    products = counted[counted["kind"].isin(PRODUCTS)]
    rated = products["rated_ns"].sum()
    metrics = {
        "product_flops_per_s": Metric(
            value=ratio(products["flops"].sum() * 1e9, rated),
            unit="flops_per_s",
            title="Rate of matmul, convolution and attention while they run, profiled",
            better="higher",
        ),
        "product_time_share": Metric(
            value=ratio(rated, counted["time_ns"].sum()),
            unit="share",
            title="Matmul, convolution and attention, of the time of operators of known cost",
        ),
    }
    if clock is not None:
        metrics |= {
            "mfu_share": Metric(
                value=float(by_rank["mfu_share"].mean()),
                unit="share",
                title=f"MFU: model FLOPs at their peak, of the step time of {clock.of_run}",
                better="higher",
            ),
            "hfu_share": Metric(
                value=float(by_rank["hfu_share"].mean()),
                unit="share",
                title="HFU: the same with what is computed again",
                better="higher",
            ),
        }
    if not products.empty:
        metrics["model_flops"] = Metric(
            value=float(by_rank["model_flops"].mean()),
            unit="flops",
            title="Model FLOPs per step and rank" + (", at least" if clock is None else ""),
        )
    return {name: metric for name, metric in metrics.items() if math.isfinite(metric.value)}


def _charts(hardware: Hardware, shapes: pd.DataFrame) -> tuple[Chart, ...]:
    return (
        Chart(
            kind="scatter",
            title=f"Roofline ({hardware.name})",
            table="roofline",
            x="flops_per_byte",
            y=("achieved_flops_per_s",),
            color="series",
            log=("x", "y"),
            lines=tuple(roof(name) for name in shapes["peak"].unique() if name),
        ),
        Chart(
            kind="bar",
            title="Time of operators and phases",
            table="by_operator",
            x="name",
            y=("time_ns",),
            color="phase",
            horizontal=True,
        ),
    )
