"""Idle time: when GPUs have nothing to do, what they wait for, and what the CPU did then."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._cpu_work import by_name
from profkit.analyze._gaps import CAUSES, Gaps, by_cause, gaps, with_edges
from profkit.analyze._idle_of_ranks import OfRanks, OfSteps
from profkit.analyze._largest_gaps import gap_rows, joined, largest, with_cpu_work
from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.blocking_calls import blocked_calls, waits_for_gpu
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.large_table import LargeTable, batches
from profkit.analyze.shared.launch_calls import CALLS, launches, launching_calls
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import (
    WHERE,
    by_repeat,
    filtered,
    positions_by_repeat,
    step_windows,
)
from profkit.core.formatting import counted
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings

_DEVICE = [*WHERE, "device"]
_TITLES = {
    "host": "GPU waits for the CPU to launch",
    "blocked": "GPU waits while the CPU is blocked in a call",
    "between": "Short gaps between kernels that were launched in time",
    "other": "Other gaps, although the next kernel was launched in time",
}
_KERNELS = Columns("rank repeat device stream name kind step start_ns end_ns correlation")
_OPS = Columns("rank repeat op parent tid name start_ns end_ns stack")
_PYTHON = Columns("rank repeat call caller tid name kind start_ns end_ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/idle.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    short_gap_ns: int = 30_000
    """Gaps under this, before work that was launched in time, count as those between kernels."""

    largest: int = 30
    """Largest gaps listed."""

    max_rows: int = 200
    """Rows kept of the other tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Device:
    """One device of one rank and repeat."""

    where: tuple[Any, ...]
    windows: pd.DataFrame
    gaps: Gaps
    waiting: Intervals
    """When the CPU waits for the GPU."""
    causes: dict[str, Intervals]

    def gap_rows(self) -> dict[str, NDArray[Any]]:
        """Return the columns of `gap_rows` for its gaps."""
        where = dict(zip(_DEVICE, self.where, strict=True))
        return gap_rows(where, self.gaps, self.windows, self.waiting)


@analysis(title="Idle GPUs")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, CALLS],
    cpu_ops: Annotated[LargeTable, _OPS],
    python_calls: Annotated[LargeTable, _PYTHON],
    annotations: pd.DataFrame,
    steps: pd.DataFrame,
    config: Config,
) -> Result:
    """How long do GPUs idle in the steps, and what do they wait for?

    A GPU idles while no stream of it has a kernel, copy or set; shares are of the time of its
    steps. As in HTA, a gap is the CPU's if the CPU began to launch the next work after the gap
    had begun. Of that, the time in which the CPU was blocked on any thread is split off: in a call
    that waits for the GPU, allocates, frees or loads code, or in a copy from or to pageable memory.
    Other gaps are short ones between kernels, or have another cause, such as a dependency between
    streams. The table of streams has HTA's own split, of each stream by itself.
    """
    on_gpu = step_spans(kernels)
    if on_gpu.empty:
        return Result.abstain("idle time of GPUs", NO_GPU_WORK)
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    found = list(_of_ranks(kernels, runtime_calls, cpu_ops, windows, config))
    known = [part.of_steps for part in found if part.of_steps]
    parts = pd.concat([part.steps for part in known])
    parts = parts.sort_values(_DEVICE, kind="stable", ignore_index=True)
    gap_table = pd.concat([part.gaps for part in known]).sort_values([*_DEVICE, "start_ns"])
    gap_table = gap_table.nlargest(config.largest, "gap_ns").reset_index(drop=True)
    threads = pd.concat([part.threads for part in found])
    gap_table = with_cpu_work(gap_table, cpu_ops, python_calls, annotations, threads)
    drained = pd.concat([part.drained_ns for part in known])
    by_rank = _shares(parts, drained)
    devices = len(parts[_DEVICE].drop_duplicates())
    steps_on = f"{counted(len(parts), 'step')} on {counted(devices, 'GPU')}"
    note = f"{steps_on}; shares are of the time of the steps."
    shown = {
        "by_rank": (by_rank, "Idle time of the GPUs of each rank by cause", note),
        "largest_gaps": (gap_table, "Largest gaps, and what the CPU did", _GAPS_NOTE),
        "host_work": (_host_work(known), *_WORK_TEXTS),
        "by_stream": (_streams(found), *_STREAM_TEXTS),
        "by_step": (parts, "Idle time of each GPU in each step", note),
    }
    return Result(
        metrics=_metrics(parts, int(drained.sum())),
        tables=_tables(shown, config.max_rows),
        charts=_charts(),
        abstentions=(*missing, *_abstentions(found)),
    )


def _of_ranks(
    kernels: LargeTable,
    runtime_calls: LargeTable,
    cpu_ops: LargeTable,
    windows: pd.DataFrame,
    config: Config,
) -> Iterator[OfRanks]:
    """Yield what is kept of the ranks with kernels."""
    knows_threads = any(
        (launching_calls(work, calls) >= 0).any() for work, calls in batches(kernels, runtime_calls)
    )
    for work, calls, ops in batches(kernels, runtime_calls, cpu_ops):
        if work.empty:
            continue
        launched = launches(work, calls)
        devices = list(_devices(work, launched, calls, windows, config))
        threads = _launching_threads(work, launched)
        counting = threads if knows_threads else None
        yield OfRanks(
            work=len(work),
            unknown=int((launched["call"] < 0).sum()),
            threads=threads,
            streams=_by_stream(work, launched, calls, config),
            of_steps=_of_steps(devices, work, launched, ops, counting, config) if devices else None,
        )


def _of_steps(  # noqa: PLR0913, PLR0917 (what was recorded of some ranks)
    devices: list[_Device],
    kernels: pd.DataFrame,
    launched: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    threads: pd.DataFrame | None,
    config: Config,
) -> OfSteps:
    """Return what is kept of the steps of the `devices`."""
    rows = joined([device.gap_rows() for device in devices])
    rows = rows[(rows["gap_ns"] > 0).to_numpy()]
    host_work, waited_ns = _host_work_of(devices, cpu_ops, threads)
    return OfSteps(
        steps=_parts(devices),
        gaps=largest(rows, kernels, launched, config.short_gap_ns, config.largest),
        drained_ns=rows[rows["drained"]].groupby("rank", observed=True)["gap_ns"].sum(),
        host_work=host_work,
        waited_ns=waited_ns,
    )


_GAPS_NOTE = (
    "At: since the start of the rank's first step that counts. Host: the operator or annotation "
    "that ran longest by itself during the gap, on a thread that launches work; Host share: of "
    "the gap. Line: the Python function of the program, not of PyTorch, with most of the gap. "
    "Drained: the CPU waited for the GPU as the gap began. Launched after: when, in the gap, the "
    "CPU began to launch what ended it. Cause host: the CPU launched too late; between: too short "
    "to tell; other: launched in time."
)
_WORK_TEXTS = (
    "What the CPU ran while a GPU waited for it",
    (
        "Without what it called, on threads that launch work; where several run, each counts. "
        "Shares are of the time that GPUs waited for the CPU."
    ),
)
_STREAM_TEXTS = (
    "Gaps of each stream by cause, as HTA splits them",
    (
        "Between the first and the last work on the stream, warm-up steps included. What HTA "
        "calls `host_wait` is host and blocked together, its `kernel_wait` is between."
    ),
)


def _tables(shown: Mapping[str, tuple[pd.DataFrame, str, str]], limit: int) -> dict[str, Table]:
    """Return the tables that have rows, from their contents, title and note."""
    return {
        key: table(rows, title=title, note=note, limit=limit)
        for key, (rows, title, note) in shown.items()
        if len(rows)
    }


def _launching_threads(kernels: pd.DataFrame, launched: pd.DataFrame) -> pd.DataFrame:
    """Return rank, repeat and number of every thread that launched a kernel, copy or set."""
    rows = launched.assign(rank=kernels["rank"].to_numpy(), repeat=kernels["repeat"].to_numpy())
    return rows.loc[launched["call"] >= 0, [*WHERE, "tid"]].drop_duplicates()


def _devices(
    kernels: pd.DataFrame,
    launched: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    windows: pd.DataFrame,
    config: Config,
) -> Iterator[_Device]:
    start, end = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    held = _blocking(kernels, launched, runtime_calls)
    waits = waits_for_gpu(runtime_calls["name"], held)
    blocked, waiting = (_spans(runtime_calls[chosen]) for chosen in (held, waits))
    until = _until(launched, held)
    frames = dict(iter(windows.groupby(WHERE, observed=True)))
    for where, rows in _groups(kernels, _DEVICE).items():
        if (frame := frames.get(where[:2])) is not None:
            span = (int(frame["start_ns"].min()), int(frame["end_ns"].max()))
            found = with_edges(gaps(start, end, rows), start, end, rows, span)
            nothing = intervals.nothing()
            call = launched["start_ns"].to_numpy(np.int64)
            yield _Device(
                where=where,
                windows=frame,
                gaps=found,
                waiting=waiting.get(where[:2], nothing),
                causes=by_cause(
                    found, call, until, blocked.get(where[:2], nothing), config.short_gap_ns
                ),
            )


def _groups(kernels: pd.DataFrame, key: list[str]) -> dict[tuple[Any, ...], NDArray[np.int64]]:
    """Return the rows of each combination of `key`."""
    found: dict[Any, Any] = dict(kernels.groupby(key, observed=True).indices)
    return {where: np.asarray(rows, dtype=np.int64) for where, rows in found.items()}


def _blocking(
    kernels: pd.DataFrame, launched: pd.DataFrame, runtime_calls: pd.DataFrame
) -> NDArray[np.bool_]:
    return blocked_calls(runtime_calls, kernels, launched["call"].to_numpy(np.int64))


def _until(launched: pd.DataFrame, held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each kernel when its launch began, or ended if the call holds the CPU."""
    holds = np.append(held, False)[launched["call"].to_numpy(np.int64)]
    return np.asarray(np.where(holds, launched["end_ns"], launched["start_ns"]), dtype=np.int64)


def _spans(calls: pd.DataFrame) -> dict[tuple[Any, ...], Intervals]:
    """Return the union of the calls of each rank and repeat."""
    spans = intervals.intervals(calls["start_ns"], calls["end_ns"])
    return {
        where: intervals.union(spans[rows]) for where, rows in positions_by_repeat(calls).items()
    }


def _parts(devices: Sequence[_Device]) -> pd.DataFrame:
    """Return one row per step of each device with the idle time of each cause."""
    times = []
    for device in devices:
        frame = intervals.intervals(device.windows["start_ns"], device.windows["end_ns"])
        causes = {name: intervals.overlap(frame, spans) for name, spans in device.causes.items()}
        times.append(
            {
                **{name: device.windows[name].to_numpy() for name in (*WHERE, "step")},
                "device": np.full(len(frame), device.where[2]),
                "time_ns": frame[:, 1] - frame[:, 0],
                "idle_ns": np.sum([*causes.values()], axis=0),
                **{f"{name}_ns": spent for name, spent in causes.items()},
            }
        )
    return joined(times)


def _shares(parts: pd.DataFrame, drained: "pd.Series[int]") -> pd.DataFrame:
    """Return one row per rank; the drained share is of the idle time, the others of all time."""
    columns = ["time_ns", *(f"{name}_ns" for name in ("idle", *CAUSES))]
    sums = parts.groupby("rank", observed=True)[columns].sum()
    shares = {
        f"{name}_share": sums[f"{name}_ns"] / sums["time_ns"].where(sums["time_ns"] > 0)
        for name in ("idle", *CAUSES)
    }
    drained = drained.reindex(sums.index, fill_value=0) / sums["idle_ns"].where(sums["idle_ns"] > 0)
    return sums.assign(**shares, drained_idle_share=drained).reset_index()


def _host_work_of(
    devices: list[_Device], cpu_ops: pd.DataFrame, threads: pd.DataFrame | None
) -> tuple[pd.DataFrame, int]:
    """Return the operators that launching threads ran while a GPU waited for the CPU, and its ns.

    All threads count if `threads` is None.
    """
    found, waited = [], 0
    ops_of = by_repeat(cpu_ops)
    threads_of = None if threads is None else by_repeat(threads)
    for device in devices:
        inside = intervals.intervals(device.windows["start_ns"], device.windows["end_ns"])
        spans = intervals.intersection(device.causes["host"], intervals.union(inside))
        ops = ops_of(device.where[:2])
        if threads_of is not None:
            ops = filtered(ops, ops["tid"].isin(threads_of(device.where[:2])["tid"]))
        found.append(by_name(ops, spans))
        waited += intervals.total(spans)
    return pd.concat(found), waited


def _host_work(found: Sequence[OfSteps]) -> pd.DataFrame:
    """Return the operators of all ranks by name, those with most time first."""
    sums = pd.concat([part.host_work for part in found]).groupby("name").sum().reset_index()
    sums = sums.sort_values("time_ns", ascending=False, ignore_index=True)
    return sums.assign(share=sums["time_ns"] / max(sum(part.waited_ns for part in found), 1))


def _streams(found: Sequence[OfRanks]) -> pd.DataFrame:
    """Return the streams of all ranks, those with most work first."""
    rows = pd.concat([part.streams for part in found]).sort_values([*_DEVICE, "stream"])
    return rows.sort_values("work", ascending=False, ignore_index=True)


def _by_stream(
    kernels: pd.DataFrame, launched: pd.DataFrame, runtime_calls: pd.DataFrame, config: Config
) -> pd.DataFrame:
    start, end = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    call = launched["start_ns"].to_numpy(np.int64)
    held = _blocking(kernels, launched, runtime_calls)
    blocked, until = _spans(runtime_calls[held]), _until(launched, held)
    key = [*_DEVICE, "stream"]
    rows = []
    for where, indices in _groups(kernels, key).items():
        waiting = blocked.get(where[:2], intervals.nothing())
        causes = by_cause(gaps(start, end, indices), call, until, waiting, config.short_gap_ns)
        times = {f"{cause}_ns": intervals.total(spans) for cause, spans in causes.items()}
        rows.append(dict(zip(key, where, strict=True)) | {"work": len(indices)} | times)
    return pd.DataFrame(rows)


def _metrics(parts: pd.DataFrame, drained_ns: int) -> dict[str, Metric]:
    time, idle = int(parts["time_ns"].sum()), int(parts["idle_ns"].sum())
    if not time:
        return {}
    shares = {"idle": "GPU idle", **_TITLES}
    metrics = {
        f"{name}_share": Metric(
            value=float(parts[f"{name}_ns"].sum() / time),
            unit="share",
            title=f"{title}, of the time of the steps",
            better="lower",
        )
        for name, title in shares.items()
    }
    if idle:
        metrics["drained_share"] = Metric(
            value=float(drained_ns / idle),
            unit="share",
            title="Gaps that began while the CPU waited for the GPU, of the idle time",
            better="lower",
        )
    return metrics


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="stacked_bar",
            title="Idle time of each rank by cause, of the time of its steps",
            table="by_rank",
            x="rank",
            y=tuple(f"{cause}_share" for cause in CAUSES),
        ),
    )


def _abstentions(found: Sequence[OfRanks]) -> tuple[Abstention, ...]:
    work, unknown = (sum(getattr(part, name) for part in found) for name in ("work", "unknown"))
    if not unknown:
        return ()
    return (
        Abstention(
            what="causes of some gaps",
            reason=f"the launch of {unknown} of {work} kernels, copies and sets was not "
            "recorded: gaps before them count as those between kernels, or as other",
        ),
    )
