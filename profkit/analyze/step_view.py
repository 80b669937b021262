"""One step on one clock: its phases, kernels, samples and memory, by each tool that saw it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import NonNegativeInt, PositiveInt

from profkit.analyze.base import ByTool, ByToolIfAny, analysis
from profkit.core.result import Abstention, Chart, Result, Table, table
from profkit.core.settings import Settings

_COLUMNS = ["tool", "source", "name", "start_ns", "end_ns", "value", "unit"]
_PHASES = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/step_view.yaml``."""

    rank: NonNegativeInt = 0
    """Rank whose step is shown."""

    repeat: NonNegativeInt = 0
    """Repeat of the captures."""

    step: int = -1
    """Step that is shown; -1 takes the last one that most tools recorded."""

    max_rows: PositiveInt = 500
    """Rows kept of each table; of kernels those that last longest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """The step as one tool saw it."""

    start_ns: int
    end_ns: int


_CHARTS = (
    Chart(
        kind="bar",
        title="Phases of the step, by each tool",
        table="phases",
        x="tool",
        y=("time_ns",),
        color="name",
    ),
    Chart(
        kind="line",
        title="What was sampled in the step, by the time since it began",
        table="samples",
        x="time_ns",
        y=("value",),
        color="tool",
        choose="series",
    ),
)


@analysis(title="One step")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: ByTool,
    annotations: ByToolIfAny,
    kernels: ByToolIfAny,
    samples: ByToolIfAny,
    memory_events: ByToolIfAny,
    config: Config,
) -> Result:
    """Put everything that is known of one step of one rank on one clock that begins with it.

    What one tool recorded was there together. Tools capture one after the other, so that the same
    step of another tool is another execution of it, which its slowdown has stretched: compare its
    time first. Kernels that run at the end of the step may have been launched in it or before.
    """
    windows = _windows(steps, config)
    if not windows:
        return Result.abstain("one step", "no step of this rank, repeat and number was marked")
    sources = {
        "phase": annotations,
        "kernel": kernels,
        "sample": samples,
        "memory": memory_events,
    }
    timeline = _timeline(windows, sources, config)
    return Result(
        tables=_tables(timeline, config),
        charts=_CHARTS,
        abstentions=tuple(_missing(timeline)),
    )


def _timeline(
    windows: Mapping[str, _Window], sources: Mapping[str, ByToolIfAny], config: Config
) -> pd.DataFrame:
    """Return what each tool recorded in the step, in ns since the step began."""
    rows: list[list[Any]] = []
    for tool, window in windows.items():
        rows += [[tool, "step", "step", 0, window.end_ns - window.start_ns, np.nan, ""]]
        for source, tables in sources.items():
            rows += _READ[source](_of(tables, tool, config), tool, window)
    timeline = pd.DataFrame(rows, columns=_COLUMNS)
    return timeline.assign(time_ns=timeline["end_ns"] - timeline["start_ns"])


def _tables(timeline: pd.DataFrame, config: Config) -> dict[str, Table]:
    is_sample = (timeline["source"] == "sample").to_numpy()
    spans = timeline[~is_sample]
    phases = timeline[timeline["source"].isin(["phase", "step"])]
    return {
        "timeline": table(
            _longest(spans, config.max_rows),
            title="What was there in the step, by the time since it began",
            note=f"{min(len(spans), config.max_rows)} of {len(spans)} rows, of kernels those"
            " that last longest.",
        ),
        "samples": table(
            _series(timeline[is_sample], config.max_rows),
            title="What was sampled in the step, by the time since it began",
            note=f"Of {is_sample.sum()} readings, every so many of a series.",
        ),
        "phases": table(
            phases.groupby(["tool", "name"], sort=False)["time_ns"].sum().reset_index(),
            title="Phases of the step, by each tool",
        ),
    }


def _longest(spans: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return at most `limit` rows in order of time, leaving out the shortest kernels."""
    last = (spans["source"] == "kernel").rename("last")
    ranked = spans.assign(last=last).sort_values(["last", "time_ns"], ascending=[True, False])
    kept = ranked.head(limit).drop(columns="last")
    return kept.sort_values(["tool", "start_ns"], kind="stable", ignore_index=True)


def _series(samples: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return tool, series (name and unit), time and value of readings.

    Every n-th reading of a series is kept, so that all together have about `limit` rows.
    """
    series = samples["name"] + " (" + samples["unit"] + ")"
    made = samples[["tool", "start_ns", "value"]].rename(columns={"start_ns": "time_ns"})
    made.insert(1, "series", series)
    made = made.sort_values(["series", "tool", "time_ns"], kind="stable", ignore_index=True)
    groups = made.groupby(["series", "tool"], sort=False)
    every = np.ceil(groups["value"].transform("size") * max(groups.ngroups, 1) / limit).astype(int)
    kept: pd.DataFrame = made[groups.cumcount() % every.clip(lower=1) == 0]
    return kept


def _windows(steps: ByTool, config: Config) -> dict[str, _Window]:
    """Return the step as each tool saw it."""
    by_tool = {tool: _of(steps, tool, config) for tool in steps}
    seen = [set(rows["step"]) for rows in by_tool.values()]
    counts = {step: sum(step in recorded for recorded in seen) for step in set().union(*seen)}
    if not counts:
        return {}
    chosen = config.step if config.step >= 0 else max(counts, key=lambda step: (counts[step], step))
    found = {tool: rows[(rows["step"] == chosen).to_numpy()] for tool, rows in by_tool.items()}
    return {
        tool: _Window(start_ns=int(rows["start_ns"].iloc[0]), end_ns=int(rows["end_ns"].iloc[0]))
        for tool, rows in found.items()
        if len(rows)
    }


def _of(tables: ByToolIfAny, tool: str, config: Config) -> pd.DataFrame:
    """Return the rows of one tool, and of the rank and repeat that are shown."""
    rows = (tables or {}).get(tool)
    if rows is None or rows.empty:
        return pd.DataFrame(columns=["step"])
    return rows[((rows["rank"] == config.rank) & (rows["repeat"] == config.repeat)).to_numpy()]


def _inside(rows: pd.DataFrame, window: _Window) -> pd.DataFrame:
    """Return the rows that overlap the step, cut to it, in ns since it began."""
    if rows.empty:
        return rows
    kept = rows[
        ((rows["start_ns"] < window.end_ns) & (rows["end_ns"] > window.start_ns)).to_numpy()
    ]
    cut = kept[["start_ns", "end_ns"]].clip(window.start_ns, window.end_ns) - window.start_ns
    return kept.assign(start_ns=cut["start_ns"], end_ns=cut["end_ns"])


def _phases(rows: pd.DataFrame, tool: str, window: _Window) -> Iterator[list[Any]]:
    kept = _inside(rows, window)
    if kept.empty:
        return
    # Those on the GPU where the tool has them: the CPU runs ahead of it.
    named = kept[kept["name"].isin(_PHASES).to_numpy()]
    on_device = named[(named["kind"] == "device").to_numpy()]
    for row in _rows(on_device if len(on_device) else named):
        yield [tool, "phase", str(row.name), row.start_ns, row.end_ns, np.nan, ""]


def _kernels(rows: pd.DataFrame, tool: str, window: _Window) -> Iterator[list[Any]]:
    for row in _rows(_inside(rows, window)):
        yield [tool, "kernel", str(row.name), row.start_ns, row.end_ns, float(row.stream), "stream"]


def _samples(rows: pd.DataFrame, tool: str, window: _Window) -> Iterator[list[Any]]:
    """Yield gauges as they were read, and counters as their rate since the reading before."""
    if rows.empty:
        return
    for (device, metric), series in rows.groupby(["device", "metric"], observed=True):
        times = series["time_ns"].to_numpy(np.int64)
        order = np.argsort(times, kind="stable")
        times, values = times[order], series["value"].to_numpy()[order]
        unit = str(series["unit"].iloc[0])
        if str(series["kind"].iloc[0]) == "counter":
            values = np.r_[np.nan, np.diff(values) / (np.diff(times) / 1e9)]
            unit = f"{unit}_per_s"
        inside = (times >= window.start_ns) & (times < window.end_ns) & ~np.isnan(values)
        for at, value in zip(times[inside] - window.start_ns, values[inside], strict=True):
            yield [tool, "sample", f"{device} {metric}", int(at), int(at), float(value), unit]


def _memory(rows: pd.DataFrame, tool: str, window: _Window) -> Iterator[list[Any]]:
    """Yield the time at which most was allocated on each device, and how much."""
    if rows.empty:
        return
    times = rows["time_ns"]
    kept = rows[((times >= window.start_ns) & (times < window.end_ns)).to_numpy()]
    for device, own in kept.groupby("device", observed=True):
        most = own.iloc[int(own["allocated_bytes"].argmax())]
        at = int(most["time_ns"]) - window.start_ns
        peak = float(most["allocated_bytes"])
        if peak >= 0:
            yield [tool, "memory", f"{device} most allocated", at, at, peak, "bytes"]


def _rows(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield rows with their columns as attributes."""
    yield from frame.itertuples(index=False)


_READ = {"phase": _phases, "kernel": _kernels, "sample": _samples, "memory": _memory}


def _missing(timeline: pd.DataFrame) -> Iterator[Abstention]:
    adding = {
        "phase": "+tool=system or torch_profiler",
        "kernel": "+tool=torch_profiler, on a machine with a GPU",
        "sample": "+tool=system, with a shorter period_s if steps are short",
        "memory": "+tool=torch_profiler",
    }
    for source, advice in adding.items():
        if source not in set(timeline["source"]):
            reason = f"no tool that ran recorded any in this step: {advice}"
            yield Abstention(what=f"{source} rows of the step", reason=reason)
