"""Breakdown: where the time of a step goes, from GPU kernels to nothing at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.lanes import Lanes, fitting
from profkit.analyze.shared.large_table import LargeTable, ranks_in_batches
from profkit.analyze.shared.step_spans import spans, step_spans
from profkit.analyze.shared.step_windows import (
    WHERE,
    after_first,
    extents,
    filtered,
    until_gpu_done,
)
from profkit.core.formatting import counted, ranks_and_repeats
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings

_DEVICE = {"compute": "kernel", "copy": "copy", "set": "set", "communication": "communication"}
_TITLES = {
    "kernel": "Kernels",
    "copy": "Copies",
    "set": "Sets",
    "communication": "Communication",
    "runtime": "Runtime calls",
    "data_loading": "Data loading",
    "other_cpu": "Other CPU work",
    "idle": "Python or waiting",
}
"""Categories in their order: an instant belongs to the first that is active."""

_CATEGORIES = [name for name in _TITLES if name != "idle"]
_BESIDE = ("exposed_communication", "hidden_communication", "hidden_copy")
"""Further times, which overlap the categories; hidden is what runs while compute does."""
_OPS = Columns("rank repeat name kind start_ns end_ns step")
_KERNELS = Columns("rank repeat kind start_ns end_ns step")
_CALLS = Columns("rank repeat start_ns end_ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/breakdown.yaml``."""

    window: Literal["device", "host"] = "device"
    """Where a step ends: ``host`` at the end of its mark, ``device`` at the end of the last
    kernel or copy launched in it if that is later, and the next step begins there."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    data_loading: tuple[str, ...] = (
        "enumerate(DataLoader)#*.__next__",
        "enumerate(DataPipe)#*",
        "data",
    )
    """Glob patterns of the ranges in which the program waits for the next batch."""

    host_communication: tuple[str, ...] = ("gloo:*", "mpi:*", "ucc:*", "*::shm_*")
    """Glob patterns of the ranges in which the CPU itself communicates, on any thread."""

    host_work: tuple[str, ...] = ("Optimizer.*#*",)
    """Glob patterns of annotations that count as work of the CPU, as operators do; others, such
    as phases, only name what happens inside them."""

    max_rows: int = 1000
    """Rows kept of the table of single steps."""


@analysis(title="Breakdown of the step")
def analyze(
    steps: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, _CALLS],
    config: Config,
) -> Result:
    """What runs at each instant of a step? The parts sum to the step.

    The first category that is active wins: kernel, copy, set, communication, runtime call, data
    loading, other CPU work, none. So communication is what no compute kernel hides; on a CPU
    it runs beside operators, and its exposed part is given too, as are the communication and the
    copies that compute hides: these run beside other parts. Python or waiting is when the
    GPU is idle and the CPU runs Python between operators, or waits.
    """
    on_cpu, on_gpu = step_spans(cpu_ops), step_spans(kernels)
    if on_cpu.empty and on_gpu.empty:
        return Result.abstain("the parts of a step", "neither operators nor kernels were recorded")
    windows, missing = _windows(steps, on_cpu, on_gpu, config)
    on_calls = spans(runtime_calls, WHERE)
    parts = _parts((windows, on_cpu, on_gpu, on_calls), (cpu_ops, kernels, runtime_calls), config)
    shown = [name for name in _TITLES if f"{name}_ns" in parts]
    columns = [f"{name}_ns" for name in shown]
    by_step = parts.groupby("step", observed=True)[["step_time_ns", *columns]].mean().reset_index()
    shares = _shares(parts, shown)
    note = _note(parts, config.window if len(on_gpu) else "host")
    return Result(
        metrics=_metrics(shares.iloc[0], shown),
        tables={
            "shares": table(shares, title="Parts of the step time", note=note),
            "by_step": table(
                by_step,
                title="Parts of each step, mean over ranks and repeats",
                note=note,
                limit=config.max_rows,
            ),
            "parts": table(parts, title="Parts of every step", note=note, limit=config.max_rows),
        },
        charts=_charts(shown),
        abstentions=(*missing, *_abstentions(on_gpu, shares)),
    )


def _windows(
    steps: pd.DataFrame, cpu_ops: pd.DataFrame, kernels: pd.DataFrame, config: Config
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return the steps that are counted; without steps, the whole capture of each rank."""
    work = pd.concat([extents(cpu_ops), extents(kernels)])
    ranks = work.groupby(WHERE, observed=True).agg({"first": "min", "last": "max"})
    kept = steps.merge(ranks.reset_index(), on=WHERE)
    kept = kept[(kept["start_ns"] < kept["last"]) & (kept["end_ns"] > kept["first"])]
    if len(kept):
        kept = until_gpu_done(kept, kernels) if config.window == "device" else kept
        return after_first(kept, config.skip_first), ()
    whole = ranks.reset_index().rename(columns={"first": "start_ns", "last": "end_ns"})
    reason = "no step was marked" if steps.empty else "the steps are those of another capture"
    what = f"{reason}: the parts are those of all that was recorded"
    return whole.assign(step=-1), (Abstention(what="single steps", reason=what),)


def _parts(
    within: Sequence[pd.DataFrame], tables: Sequence[LargeTable], config: Config
) -> pd.DataFrame:
    """Return one row per window with the time in ns of each category that the capture records.

    `within` are the windows, and when the operators, kernels and runtime calls of `tables` ran.
    """
    _, has_kernels, has_calls = (any(table.groups()) for table in tables)
    absent = set() if has_kernels else {"kernel", "copy", "set"}
    if not has_kernels and not has_calls:
        absent.add("runtime")
    found = []
    groups = [table.groups() for table in (LargeTable.of(within[0]), *tables)]
    for ranks in ranks_in_batches(groups):
        of_ranks = [rows[rows["rank"].isin(ranks).to_numpy()] for rows in within]
        read = [table.only(ranks) for table in tables]
        for own in fitting(of_ranks):
            lanes = Lanes(own)
            active = _active(read, lanes, config)
            periods = {name: active[name] for name in active if name not in absent}
            rows = own[0].sort_values(WHERE, kind="stable", ignore_index=True)
            frame = lanes.spans(rows)
            parts = {"step_time_ns": frame[:, 1] - frame[:, 0]} | _divided(frame, periods)
            found.append(rows[[*WHERE, "step"]].assign(**parts))
    return pd.concat(found, ignore_index=True)


def _active(tables: Sequence[LargeTable], lanes: Lanes, config: Config) -> dict[str, Intervals]:
    """Return the intervals in which each category is active on each rank, as unions.

    `tables` are operators, kernels and runtime calls.
    """
    found = {name: [intervals.nothing()] for name in _CATEGORIES}
    for work, categories in zip(tables, (_of_ops, _of_kernels, _of_calls), strict=True):
        for rows in map(lanes.known, work.portions()):
            for name, which in categories(rows, config):
                found[name].append(intervals.union(lanes.spans(filtered(rows, which))))
    return {name: intervals.union(np.concatenate(parts)) for name, parts in found.items()}


def _of_ops(cpu_ops: pd.DataFrame, config: Config) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield categories of the CPU, with the rows that are of each."""
    communicates = matching(cpu_ops["name"], config.host_communication)
    loads = matching(cpu_ops["name"], config.data_loading)
    works = (cpu_ops["kind"] == "operator").to_numpy() | matching(cpu_ops["name"], config.host_work)
    yield "communication", communicates
    yield "data_loading", loads
    yield "other_cpu", works & ~communicates & ~loads


def _of_kernels(kernels: pd.DataFrame, _: Config) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for kind, category in _DEVICE.items():
        yield category, (kernels["kind"] == kind).to_numpy()


def _of_calls(calls: pd.DataFrame, _: Config) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    yield "runtime", np.ones(len(calls), dtype=np.bool_)


def _divided(windows: Intervals, spans: Mapping[str, Intervals]) -> dict[str, np.ndarray]:
    """Return the time of each window in each category and in `_BESIDE`, in ns."""
    left = intervals.union(windows)
    parts = {}
    for name in _TITLES:
        if name in spans:
            parts[f"{name}_ns"] = intervals.overlap(
                windows, intervals.intersection(left, spans[name])
            )
            left = intervals.difference(left, spans[name])
    parts["idle_ns"] = intervals.overlap(windows, left)
    # On a CPU the operators are the compute that communication can hide behind.
    work = spans["kernel"] if "kernel" in spans else spans["other_cpu"]
    exposed = intervals.difference(spans["communication"], work)
    beside = {"exposed_communication": exposed} | {
        f"hidden_{name}": intervals.intersection(spans[name], work)
        for name in ("communication", "copy")
        if name in spans
    }
    return parts | {
        f"{name}_ns": intervals.overlap(windows, periods) for name, periods in beside.items()
    }


def _shares(parts: pd.DataFrame, shown: list[str]) -> pd.DataFrame:
    """Return the mean step time and the share of each category: of all, then of each rank."""
    names = [*shown, *(name for name in _BESIDE if f"{name}_ns" in parts)]
    columns = [f"{name}_ns" for name in names]
    sums = parts.groupby("rank", observed=True)[["step_time_ns", *columns]].sum()
    sums.index = sums.index.astype(str)
    sums = pd.concat([sums.sum().to_frame("all").T, sums])
    shares = sums[columns].div(sums["step_time_ns"], axis=0)
    shares.columns = pd.Index([f"{name}_share" for name in names])
    means = parts.groupby("rank", observed=True)["step_time_ns"].mean()
    shares.insert(0, "mean_step_time_ns", [parts["step_time_ns"].mean(), *means])
    return shares.rename_axis("rank").reset_index()


def _metrics(overall: "pd.Series[float]", shown: list[str]) -> dict[str, Metric]:
    titles = {name: _TITLES[name] for name in shown}
    titles["exposed_communication"] = "Communication that no compute hides"
    better: dict[str, Literal["higher", "lower"]] = {"kernel": "higher", "other_cpu": "higher"}
    return {
        f"{name}_share": Metric(
            value=float(overall[f"{name}_share"]),
            unit="share",
            title=f"{title}, % of step",
            better=better.get(name, "lower"),
        )
        for name, title in titles.items()
        if np.isfinite(overall[f"{name}_share"])
    }


def _charts(shown: list[str]) -> tuple[Chart, ...]:
    return (
        Chart(
            kind="stacked_bar",
            title="Parts of each step, mean over ranks and repeats",
            table="by_step",
            x="step",
            y=tuple(f"{name}_ns" for name in shown),
        ),
        Chart(
            kind="stacked_bar",
            title="Parts of the step time of each rank",
            table="shares",
            x="rank",
            y=tuple(f"{name}_share" for name in shown),
        ),
    )


def _abstentions(kernels: pd.DataFrame, shares: pd.DataFrame) -> tuple[Abstention, ...]:
    found = []
    if not shares["mean_step_time_ns"].iloc[0]:
        found.append(Abstention(what="shares of a step", reason="the steps take no time at all"))
    if kernels.empty:
        found.append(Abstention(what="kernels, copies and sets", reason=NO_GPU_WORK))
    return tuple(found)


def _note(parts: pd.DataFrame, window: str) -> str:
    end = {"device": "GPU", "host": "CPU"}[window]
    steps = counted(len(parts), "step")
    return f"{steps} of {ranks_and_repeats(parts)} of a profiled capture; a step ends on the {end}."
