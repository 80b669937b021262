"""Communication overlap: how much of it compute hides, and what the rest costs the step."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.lanes import Lanes, fitting
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.ratio import ratio
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows, with_clock
from profkit.core.formatting import ranks_and_repeats
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings

_GAIN = (
    "Per step of a rank. The gain is at most the exposed time, waiting for a late rank included, "
    "and its share is of the step time. Collectives that run side by side both count."
)
_DEVICE = [*WHERE, "device"]
_TIMES = ["communication_ns", "hidden_ns", "exposed_ns"]
_KERNELS = Columns("rank repeat device name kind start_ns end_ns step collective")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/overlap.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_rows: int = 2000
    """Rows kept of the table of single steps."""


@analysis(title="Communication overlap")
def analyze(
    kernels: Annotated[LargeTable, _KERNELS],
    steps: pd.DataFrame,
    collectives: pd.DataFrame,
    config: Config,
) -> Result:
    """Which share of the communication time do compute kernels hide, and what is exposed?

    Communication is the union of communication kernels on a GPU, and hidden while a compute
    kernel runs on the same GPU; copies and sets hide nothing, as in HTA. The share hidden is
    of the rank's communication time. Exposed communication is given as a share of the step time,
    and that is the time of the step on its slowest rank. Where a rank has several GPUs, times
    are the mean over those that communicate.
    """
    on_gpu = step_spans(kernels)
    if on_gpu.empty:
        on_cpu = "no GPU work was recorded: the breakdown has what the CPU communicated"
        reason = NO_GPU_WORK if collectives.empty else on_cpu
        return Result.abstain("communication overlap", reason)
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    windows = with_clock(windows)
    found = list(_of_ranks(windows, kernels, collectives))
    if not found:
        return Result.abstain("communication overlap", "no communication kernel was recorded")
    whole, of_operations = (pd.concat(parts) for parts in zip(*found, strict=True))
    by_step = _by_step(windows, whole)
    by_rank = _by_rank(by_step)
    by_operation = _by_operation(windows, of_operations)
    note = _note(by_step)
    return Result(
        metrics=_metrics(by_step),
        tables={
            "by_operation": table(
                by_operation,
                title="Gain of each collective if compute could hide it (overlap)",
                note=_GAIN,
                limit=config.max_rows,
            ),
            "by_rank": table(by_rank, title="Communication of each rank", note=note),
            "by_step": table(
                by_step, title="Communication of each step", note=note, limit=config.max_rows
            ),
        },
        charts=_charts(),
        abstentions=(*missing, *_abstentions(by_step)),
    )


def _of_ranks(
    windows: pd.DataFrame, kernels: LargeTable, collectives: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield what `_in_steps` returns of all communication of some ranks, and of each operation."""
    for frames, rows in batches(LargeTable.of(windows), kernels):
        communication = rows[(rows["kind"] == "communication").to_numpy()]
        if len(communication):
            compute = rows[(rows["kind"] == "compute").to_numpy()]
            named = communication.assign(operation=_operations(communication, collectives))
            whole = _in_steps(frames, communication.assign(operation="all"), compute)
            yield whole, _in_steps(frames, named, compute)


def _by_step(windows: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rank, repeat and step: the mean over its devices that communicate."""
    means = whole.drop(columns="operation")
    # A step without communication is one with 0 of it, not an unknown one.
    rows = windows[[*WHERE, "step", "step_time_ns"]].merge(means, how="left", on=[*WHERE, "step"])
    rows = rows.fillna(0).astype({"communication_ns": np.int64, "hidden_ns": np.int64})
    rows["exposed_ns"] = rows["communication_ns"] - rows["hidden_ns"]
    return _with_shares(rows).sort_values([*WHERE, "step"], ignore_index=True)


def _in_steps(
    windows: pd.DataFrame, communication: pd.DataFrame, compute: pd.DataFrame
) -> pd.DataFrame:
    """Return the times of each operation in each step, the mean over the devices that have it."""
    named = communication[[*_DEVICE, "operation"]].drop_duplicates()
    frames = named.merge(windows[[*WHERE, "step", "start_ns", "end_ns"]], on=WHERE)
    tables = fitting([communication, compute, frames], _DEVICE)
    parts = [part for own in tables for part in _of_operations(*own)]
    if not parts:  # of ranks without steps that count
        return frames[[*WHERE, "step", "operation"]].assign(communication_ns=0.0, hidden_ns=0.0)
    # Devices of one rank wait at the same time: a sum could be longer than the step.
    of_devices = pd.concat(parts).sort_values(_DEVICE, kind="stable").drop(columns="device")
    means = of_devices.groupby([*WHERE, "step", "operation"], observed=True).mean()
    return means.reset_index()


def _of_operations(
    communication: pd.DataFrame, compute: pd.DataFrame, frames: pd.DataFrame
) -> Iterator[pd.DataFrame]:
    """Yield for each operation its times in the `frames`."""
    lanes = Lanes([communication, compute, frames], _DEVICE)
    # Only a kernel on the same device hides anything.
    cover, spans, inside = map(lanes.spans, (compute, communication, frames))
    cover = intervals.union(cover)
    rows_of = communication.groupby("operation", observed=True).indices
    for operation, rows in frames.groupby("operation", observed=True).indices.items():
        active = intervals.union(spans[rows_of[operation]])
        times = {
            "communication_ns": intervals.overlap(inside[rows], active),
            "hidden_ns": intervals.overlap(inside[rows], intervals.intersection(active, cover)),
        }
        yield frames.iloc[rows][[*_DEVICE, "step", "operation"]].assign(**times)


def _operations(communication: pd.DataFrame, collectives: pd.DataFrame) -> "pd.Series[str]":
    """Return what each kernel of `communication` carries out; its own name if that is unknown."""
    key = ["rank", "repeat", "collective"]
    known = collectives[[*key, "operation"]].drop_duplicates(key)
    found = communication[key].merge(known, how="left", on=key)["operation"]
    operation = pd.Series(found.astype(object).to_numpy(), index=communication.index).fillna("")
    return operation.where(operation != "", communication["name"].astype(object))


def _by_operation(windows: pd.DataFrame, of_operations: pd.DataFrame) -> pd.DataFrame:
    """Return one row per operation and rank, in ns per step, those with the most to gain first."""
    key = ["rank", "operation"]
    sums = of_operations.groupby(key, observed=True)[_TIMES[:2]].sum()
    steps, lasted = (
        windows.groupby("rank", observed=True)["step_time_ns"].agg(how) for how in ("size", "sum")
    )
    rows = sums.reset_index()
    count, whole = (rows["rank"].map(of_rank) for of_rank in (steps, lasted))
    gain = rows["communication_ns"] - rows["hidden_ns"]
    rows = rows[key].assign(
        communication_per_step_ns=rows["communication_ns"] / count,
        hidden_per_step_ns=rows["hidden_ns"] / count,
        gain_at_most_ns=gain / count,
        gain_share=gain / whole.where(whole > 0),
    )
    rows = rows[(rows["communication_per_step_ns"] > 0).to_numpy()]
    most = rows.groupby("operation", observed=True)["gain_at_most_ns"].transform("max")
    return (
        rows.assign(most=most)
        .sort_values(["most", *key[::-1]], ascending=[False, True, True], ignore_index=True)
        .drop(columns="most")
    )


def _by_rank(by_step: pd.DataFrame) -> pd.DataFrame:
    sums = by_step.groupby("rank", observed=True)[["step_time_ns", *_TIMES]].sum()
    sums.insert(0, "steps", by_step.groupby("rank", observed=True).size())
    return _with_shares(sums.reset_index())


def _with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with the hidden share of communication and the exposed share of the step."""
    hidden, exposed = rows["hidden_ns"], rows["exposed_ns"]
    return rows.assign(
        hidden_share=hidden / rows["communication_ns"].where(rows["communication_ns"] > 0),
        exposed_share=exposed / rows["step_time_ns"].where(rows["step_time_ns"] > 0),
    )


def _metrics(by_step: pd.DataFrame) -> dict[str, Metric]:
    sums = by_step[["step_time_ns", *_TIMES]].sum()
    metrics = {
        "hidden_share": Metric(
            value=ratio(sums["hidden_ns"], sums["communication_ns"]),
            unit="share",
            title="Communication hidden behind compute, of the communication time of all ranks",
            better="higher",
        ),
        "exposed_share": Metric(
            value=ratio(sums["exposed_ns"], sums["step_time_ns"]),
            unit="share",
            title="Exposed communication, of the slowest rank's step time, mean over ranks",
            better="lower",
        ),
        "communication_share": Metric(
            value=ratio(sums["communication_ns"], sums["step_time_ns"]),
            unit="share",
            title="Communication, hidden or not, of the slowest rank's step time, mean over ranks",
        ),
    }
    return {name: metric for name, metric in metrics.items() if math.isfinite(metric.value)}


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="stacked_bar",
            title="Communication of each rank, hidden and exposed",
            table="by_rank",
            x="rank",
            y=("hidden_ns", "exposed_ns"),
        ),
        Chart(
            kind="line",
            title="Exposed communication, of the time of each step",
            table="by_step",
            x="step",
            y=("exposed_share",),
            color="rank",
        ),
    )


def _abstentions(by_step: pd.DataFrame) -> tuple[Abstention, ...]:
    if by_step["communication_ns"].any():
        return ()
    reason = "all communication that was recorded lies outside the steps that count"
    return (Abstention(what="communication overlap", reason=reason),)


def _note(by_step: pd.DataFrame) -> str:
    return (
        f"{ranks_and_repeats(by_step)}. Hidden: share of the communication time; exposed: share "
        " of the step time, which is that of the slowest rank."
    )
