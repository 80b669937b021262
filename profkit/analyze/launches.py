"""Launches: what it costs the CPU to start GPU work, and how far ahead of it the CPU is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from profkit.analyze._launch_queue import Queue, queue
from profkit.analyze._launch_times import LaunchTimes
from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.blocking_calls import blocked_calls
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.launch_calls import CALLS, launches
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows, with_clock
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings

_STREAM = [*WHERE, "device", "stream"]
_KERNELS = Columns("rank repeat device stream name kind step start_ns end_ns correlation")
_TITLES = {
    "call_ns": "Median time of a launch",
    "delay_ns": "Median delay from launch to start",
    "shorter_share": "Kernels, copies and sets shorter than their launch, of all by number",
    "launch_share": "Launching calls, of the step time, mean over ranks",
    "held_share": "Launching calls that hold the CPU, of the step time, mean over ranks",
    "queue_length": "Entries in a launch queue, mean over time",
    "blocked_share": "Launching calls while the queue is full, of the step time, worst rank",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/launches.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    full_queue: int = 1000
    """Entries at which a queue counts as full: CUDA's has 1024, some of them not for kernels."""

    points: int = 200
    """Points in time at which the queue of each rank is drawn."""

    max_rows: int = 200
    """Rows kept of each table but that of the queue over time."""


@analysis(title="Launches")
def analyze(
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, CALLS],
    steps: pd.DataFrame,
    config: Config,
) -> Result:
    """How long do calls that launch GPU work take, how late does it start, how full is the queue?

    The delay passes from the end of the call to the start of the work, and is 0 where the work
    began before. A call that launches a CUDA graph counts for each kernel in equal parts. The
    queue of a stream holds what was launched and has not begun. A call in which the CPU is blocked,
    as in a copy from pageable memory or in a launch that loads code, is no work: it counts as held,
    and neither as a launch nor in the median. Shares of kernels are by number of all kernels,
    copies and sets whose launch is known; warm-up steps are left out.
    """
    on_gpu = step_spans(kernels)
    if on_gpu.empty:
        return Result.abstain("launches", NO_GPU_WORK)
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    times = LaunchTimes()
    found = list(_of_ranks(kernels, runtime_calls, windows, times, config))
    parts = [part for part in found if part.rows > part.unknown]
    if not parts:
        return Result.abstain("launches", "no call that launched GPU work was recorded")
    by_rank = pd.concat([part.by_rank for part in parts]).sort_values("rank", ignore_index=True)
    streams = pd.concat([part.streams for part in parts]).sort_values(_STREAM)
    streams = streams.sort_values("kernels", ascending=False, kind="stable", ignore_index=True)
    lines = pd.concat([part.lines for part in parts]).sort_values(WHERE, kind="stable")
    count, unknown = (sum(getattr(part, name) for part in found) for name in ("rows", "unknown"))
    return Result(
        metrics=_metrics(times, by_rank),
        tables=_tables(times, by_rank, streams, lines, config),
        charts=_charts(),
        abstentions=(*missing, *_abstentions(count, unknown)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _OfRanks:
    """What is kept of the launches of some ranks."""

    rows: int
    unknown: int
    by_rank: pd.DataFrame
    streams: pd.DataFrame
    lines: pd.DataFrame
    """The queue over time of the busiest stream of each rank and repeat."""


def _of_ranks(
    kernels: LargeTable,
    runtime_calls: LargeTable,
    windows: pd.DataFrame,
    times: LaunchTimes,
    config: Config,
) -> Iterator[_OfRanks]:
    """Yield what is kept of some ranks, whose launches are added to `times`."""
    clock = with_clock(windows).groupby("rank", observed=True)["step_time_ns"].sum()
    for work, calls in batches(kernels, runtime_calls):
        rows = _launched(work, calls, windows)
        known = rows[rows["call"] >= 0]
        known = known.assign(once=~known["call"].duplicated())
        times.add(known)
        queues = {
            where: queue(own["call_start_ns"].to_numpy(), own["start_ns"].to_numpy())
            for where, own in known.groupby(_STREAM, observed=True)
        }
        streams = _by_stream(known, queues, config) if len(known) else pd.DataFrame()
        yield _OfRanks(
            rows=len(rows),
            unknown=len(rows) - len(known),
            by_rank=_by_rank(known, streams, clock) if len(known) else pd.DataFrame(),
            streams=streams,
            lines=_over_time(streams, queues, config.points) if len(known) else pd.DataFrame(),
        )


_NOTES = {
    "by_call": "Shorter: kernels, copies and sets that took less than their launch.",
    "by_rank": "Shares are of the step time of the slowest rank. Held: the CPU is blocked in it.",
    "by_stream": (
        "Mean length: over time; mean after changes: over launches and starts, as in HTA. A "
        "queue counts as full from the number of entries that is set; blocked is the time of "
        "launching calls meanwhile."
    ),
    "queue": "First repeat; time from the first launch that counts.",
}


def _tables(
    times: LaunchTimes,
    by_rank: pd.DataFrame,
    streams: pd.DataFrame,
    lines: pd.DataFrame,
    config: Config,
) -> dict[str, Table]:
    shown = {
        "by_call": (times.by_call(), "Launches by call"),
        "by_rank": (by_rank, "Launches of each rank"),
        "by_stream": (streams, "Launch queue of each stream"),
    }
    tables = {
        key: table(rows, title=title, note=_NOTES[key], limit=config.max_rows)
        for key, (rows, title) in shown.items()
    }
    queue_table = table(
        lines[(lines["repeat"] == streams["repeat"].min()).to_numpy()].drop(columns="repeat"),
        title="Launch queue of the busiest stream of each rank over time",
        note=_NOTES["queue"],
    )
    return tables | {"queue": queue_table}


def _launched(
    kernels: pd.DataFrame, runtime_calls: pd.DataFrame, windows: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per kernel, copy and set of the counted steps, with its launch."""
    calls = launches(kernels, runtime_calls)
    work = kernels[[*_STREAM, "step", "start_ns", "end_ns"]].reset_index(drop=True)
    rows = work.assign(
        call=calls["call"],
        name=calls["name"],
        call_start_ns=calls["start_ns"],
        call_end_ns=calls["end_ns"],
    )
    rows["kernel_ns"] = rows["end_ns"] - rows["start_ns"]
    rows["call_ns"] = rows["call_end_ns"] - rows["call_start_ns"]
    held = blocked_calls(runtime_calls, kernels, calls["call"].to_numpy(np.int64))
    rows["held"] = np.append(held, False)[calls["call"].to_numpy(np.int64)]
    rows["delay_ns"] = (rows["start_ns"] - rows["call_end_ns"]).clip(lower=0)
    # A graph has one launch for many kernels.
    rows["launch_ns"] = rows["call_ns"] / rows.groupby("call")["call"].transform("size")
    rows["shorter"] = (rows["kernel_ns"] < rows["launch_ns"]) & ~rows["held"]
    if (windows["step"] < 0).all():
        return rows
    key = [*WHERE, "step"]
    return rows.merge(windows[key].drop_duplicates(), on=key)


def _summary(known: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rank."""
    groups = known.groupby("rank", observed=True)
    once = known[known["once"].to_numpy()].groupby("rank", observed=True)["call_ns"]
    delay = groups["delay_ns"]
    found = pd.DataFrame(
        {
            "launches": once.size(),
            "kernels": groups.size(),
            "call_ns": once.sum(),
            "mean_call_ns": once.mean(),
            "median_call_ns": once.median(),
            "kernel_ns": groups["kernel_ns"].sum(),
            "mean_delay_ns": delay.mean(),
            "median_delay_ns": delay.median(),
            "max_delay_ns": delay.max(),
            "shorter_share": groups["shorter"].mean(),
        }
    )
    return found.reset_index()


def _by_stream(known: pd.DataFrame, queues: dict[Any, Queue], config: Config) -> pd.DataFrame:
    rows = []
    for where, work in known.groupby(_STREAM, observed=True):
        line = queues[where]
        full = line.full(config.full_queue)
        calls = intervals.union(intervals.intervals(work["call_start_ns"], work["call_end_ns"]))
        rows.append(
            dict(zip(_STREAM, where, strict=True))
            | {
                "kernels": len(work),
                "mean_length": line.mean(),
                "mean_after_changes": float(line.length.mean()),
                "max_length": int(line.length.max()),
                "full_ns": intervals.total(full),
                "blocked_ns": intervals.total(intervals.intersection(full, calls)),
                "span_ns": line.span_ns(),
            }
        )
    found = pd.DataFrame(rows)
    return found.sort_values("kernels", ascending=False, kind="stable", ignore_index=True)


def _by_rank(known: pd.DataFrame, streams: pd.DataFrame, clock: "pd.Series[int]") -> pd.DataFrame:
    found = _summary(known)
    total = found["rank"].map(clock)
    by_rank = streams.groupby("rank", observed=True)
    weighted = (streams["mean_length"] * streams["span_ns"]).groupby(streams["rank"]).sum()
    blocked = found["rank"].map(by_rank["blocked_ns"].sum())
    once = known[known["once"].to_numpy()]
    held = once["call_ns"].where(once["held"], 0).groupby(once["rank"]).sum()
    held_ns = found["rank"].map(held)
    return found.assign(
        launch_share=(found["call_ns"] - held_ns) / total,
        held_ns=held_ns,
        held_share=held_ns / total,
        mean_length=found["rank"].map(weighted / by_rank["span_ns"].sum().clip(lower=1)),
        max_length=found["rank"].map(by_rank["max_length"].max()),
        blocked_ns=blocked,
        blocked_share=blocked / total,
    )


def _over_time(streams: pd.DataFrame, queues: dict[Any, Queue], points: int) -> pd.DataFrame:
    """Return the queue length of the busiest stream of each rank and repeat.

    In equal parts of its time.
    """
    parts = []
    for _, row in streams.drop_duplicates(WHERE).sort_values(WHERE).iterrows():
        line = queues[tuple(int(row[name]) for name in _STREAM)]
        span = line.span_ns()
        edges = line.times_ns[0] + np.arange(points + 1) * span // points
        mean, largest = line.sampled(edges)
        parts.append(
            pd.DataFrame(
                {
                    "rank": int(row["rank"]),
                    "repeat": int(row["repeat"]),
                    "stream": int(row["stream"]),
                    "time_ns": edges[:-1] - line.times_ns[0],
                    "mean_length": mean,
                    "max_length": largest,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _metrics(times: LaunchTimes, by_rank: pd.DataFrame) -> dict[str, Metric]:
    values: tuple[tuple[str, float, str, Literal["lower", "higher", "neither"]], ...] = (
        ("call_ns", times.median_call_ns(), "ns", "lower"),
        ("delay_ns", times.median_delay_ns(), "ns", "neither"),
        ("shorter_share", times.shorter_share(), "share", "lower"),
        ("launch_share", by_rank["launch_share"].mean(), "share", "lower"),
        ("held_share", by_rank["held_share"].mean(), "share", "lower"),
        ("queue_length", by_rank["mean_length"].mean(), "count", "higher"),
        ("blocked_share", by_rank["blocked_share"].max(), "share", "neither"),
    )
    return {
        name: Metric(value=float(value), unit=unit, title=_TITLES[name], better=better)
        for name, value, unit, better in values
        if math.isfinite(value)
    }


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="line",
            title="Launch queue of the busiest stream of each rank over time",
            table="queue",
            x="time_ns",
            y=("mean_length",),
            color="rank",
        ),
        Chart(
            kind="bar",
            title="CPU time of launch calls by name",
            table="by_call",
            x="name",
            y=("call_ns",),
            horizontal=True,
        ),
    )


def _abstentions(count: int, unknown: int) -> tuple[Abstention, ...]:
    if not unknown:
        return ()
    reason = f"of {unknown} of {count} kernels, copies and sets the launch was not recorded"
    return (Abstention(what="some launches", reason=reason),)
