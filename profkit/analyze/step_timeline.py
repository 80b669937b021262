"""Timeline: a typical and the worst step of all ranks on one clock, and the whole recording."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import PositiveInt

from profkit.analyze.base import Columns, OfTool, analysis
from profkit.analyze.division import calls_of_use, divided_ranks
from profkit.analyze.division.periods import Periods, periods, slowest_ns
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.launch_calls import CALLS
from profkit.analyze.shared.step_spans import operator_spans
from profkit.analyze.shared.step_times import ClockedSteps
from profkit.analyze.shared.step_windows import extents, filtered, of_repeat
from profkit.analyze.tracks.levels import levels, memory_lines, pieces
from profkit.analyze.tracks.of_rank import Recorded
from profkit.analyze.tracks.room import Room, room_for
from profkit.analyze.tracks.shown_ranks import ShownRank, shown_ranks
from profkit.analyze.tracks.track import Track, encoded, kept
from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.tables import schema
from profkit.tables.rank_clocks import MatchedCollectives, matched_collectives

_SAMPLER = "torch_profiler"
TYPICAL, WORST, ONLY, WHOLE = "typical", "worst", "only", "whole"
_NAMES = {
    TYPICAL: "step {} (typical)",
    WORST: "step {} (worst)",
    ONLY: "step {}",
    WHOLE: "all that was recorded",
}
_MARKED = 2000
_OPS = Columns(
    "rank repeat op parent tid name kind start_ns end_ns step input_shapes inputs forward module"
    " phase stack",
    narrow="op parent",
)
_KERNELS = Columns(
    "rank repeat device stream name kind start_ns end_ns correlation op step size_bytes copy_kind"
    " graph grid block registers shared_memory_bytes occupancy_percent module phase",
    narrow="correlation op",
)
_Rows = pd.DataFrame | None
_MEMORY = Columns("rank repeat device time_ns allocated_bytes")
_PYTHON = Columns("rank repeat tid name kind start_ns end_ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/step_timeline.yaml``."""

    skip_first: int = 3
    """First steps that are neither typical nor worst, as long as others remain."""

    max_ranks: PositiveInt = 8
    """Ranks shown; of more the first, and those with least, median and most work."""

    max_slices: PositiveInt = 100_000
    """Slices of a step on all ranks; of more the shortest on CPU threads are left out."""

    max_points: PositiveInt = 2000
    """Points of a line of memory in a step; of more the highest and lowest are kept."""

    pieces: PositiveInt = 600
    """Pieces of the whole recording, each with how busy every track is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chosen:
    """A step that is shown in full."""

    step: int
    role: str
    window: tuple[int, int]
    room: Room


@analysis(title="Timeline")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, CALLS],
    annotations: pd.DataFrame,
    python_calls: Annotated[LargeTable, _PYTHON],
    collectives: pd.DataFrame,
    memory_events: Annotated[_Rows, OfTool(tool=_SAMPLER, table="memory_events", columns=_MEMORY)],
    samples: Annotated[_Rows, OfTool(tool=_SAMPLER, table="python_samples")],
    threads: Annotated[_Rows, OfTool(tool=_SAMPLER, table="python_threads")],
    pauses: Annotated[_Rows, OfTool(tool=_SAMPLER, table="python_pauses")],
    sampled_steps: ClockedSteps,
    config: Config,
) -> Result:
    """What ran when, in a typical step, the worst step and the whole recording?

    The typical step is that of median time among the steady ones, on the slowest rank; the worst
    took longest. Ranks are put on one clock by the ends of their collectives. Time in which the GPU
    does nothing has the cause that the verdict gives it.
    """
    if not any((*cpu_ops.groups(), *kernels.groups())):
        return Result.abstain("a timeline", "neither operators nor kernels were recorded")
    on_cpu = operator_spans(cpu_ops)
    on_gpu, _ = divided_ranks.placed_spans(kernels, runtime_calls)
    found = periods(steps, on_cpu, on_gpu, config.skip_first, sampled_steps)
    if found.rows.empty:
        return Result.abstain("a timeline", "what was recorded took no time")
    repeat = int(found.rows["repeat"].min())
    rows = found.rows[(found.rows["repeat"] == repeat).to_numpy()]
    matched = matched_collectives(collectives)
    shown = shown_ranks(rows, matched, repeat, config.max_ranks)
    span = _span([on_cpu, on_gpu], repeat, shown)
    of_threads = {"cpu_ops": cpu_ops, "runtime_calls": runtime_calls, "python_calls": python_calls}
    room = partial(room_for, of_threads, span, repeat, shown, config.max_slices)
    chosen = _chosen(rows, shown, room)
    drawn = partial(_in_any, chosen=chosen, shown=shown)
    python = python_calls.where(lambda calls: calls_of_use.divides(calls) | drawn(calls))
    sampled = divided_ranks.sampled_tables(samples, threads, pauses, sampled_steps)
    tables: dict[str, pd.DataFrame | LargeTable] = {"ops": cpu_ops, "kernels": kernels}
    tables |= {"calls": runtime_calls, "python": python, **sampled}
    others = {"annotations": annotations, "collectives": collectives}
    others["memory"] = _with_totals(memory_events)
    windows = pieces(*span, config.pieces)
    of_whole: list[dict[str, Any]] = []
    tracks: list[list[Track]] = [[] for _ in chosen]
    lines: list[list[dict[str, Any]]] = [[] for _ in chosen]
    for one in _recorded(replace(found, rows=rows), tables, others, matched, shown, drawn):
        of_whole += levels(one, windows)
        for at, part in enumerate(chosen):
            tracks[at] += one.tracks(part.window, part.room.least_ns)
            lines[at] += memory_lines(one, part.window, config.max_points)
        del one
    data = _whole(span, of_whole, shown, rows, steps)
    data |= {"pieces": len(windows), "repeat": repeat, "ranks_recorded": rows["rank"].nunique()}
    parts = zip(chosen, tracks, lines, strict=True)
    details = tuple(_detail(*part, span[0], config) for part in parts)
    drawing = Drawing(kind="timeline", title="Timeline", data=data, details=details)
    return Result(drawings={"timeline": drawing})


def _with_totals(memory_events: pd.DataFrame | None) -> pd.DataFrame:
    """Return the allocations and frees that say how much was allocated by then."""
    events = schema.frame("memory_events") if memory_events is None else memory_events
    return filtered(events, events["allocated_bytes"] >= 0)


def _recorded(  # noqa: PLR0913, PLR0917 (what is read, and which of it)
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
    others: Mapping[str, pd.DataFrame],
    matched: MatchedCollectives,
    shown: Sequence[ShownRank],
    drawn: Callable[[pd.DataFrame], NDArray[np.bool_]],
) -> Iterator[Recorded]:
    """Yield what the ranks that are shown recorded in the repeat of the periods."""
    late = divided_ranks.with_late_rank(matched)
    key = ["rank", "repeat", "collective"]
    met = late[[*key, "meeting", "wait_ns", "last"]]
    every = others["collectives"].merge(met, how="left", on=key)
    every = every.fillna({"meeting": -1, "wait_ns": -1, "last": False})
    every = every.astype({"meeting": np.int64, "wait_ns": np.int64, "last": np.bool_})
    chosen = {one.rank: one for one in shown}
    rows = found.rows[found.rows["rank"].isin(chosen).to_numpy()]
    of_rank = {**tables, "collectives": late}
    for rank, time in divided_ranks.divided(replace(found, rows=rows), of_rank, drawn):
        made = Recorded(
            rank=rank,
            time=time,
            annotations=of_repeat(others["annotations"], rank.where),
            collectives=of_repeat(every, rank.where),
            memory=of_repeat(others["memory"], rank.where),
            offset_ns=chosen[rank.where[0]].offset_ns,
        )
        del rank, time
        yield made
        del made


def _chosen(
    rows: pd.DataFrame, shown: Sequence[ShownRank], room: Callable[[tuple[int, int]], Room]
) -> list[_Chosen]:
    """Return the step of median time on its slowest rank, and the one that took longest."""
    lengths = slowest_ns(rows).droplevel("repeat").sort_values(kind="stable")
    ordered = [int(step) for step in lengths.index]
    picked = {ordered[(len(ordered) - 1) // 2]: TYPICAL}
    if len(ordered) > 1:
        picked[ordered[-1]] = WORST
    if len(picked) == 1:
        picked = dict.fromkeys(picked, ONLY if ordered[0] >= 0 else WHOLE)
    windows = {step: _window(rows[rows["step"] == step], shown) for step in picked}
    return [
        _Chosen(step=step, role=role, window=windows[step], room=room(windows[step]))
        for step, role in picked.items()
    ]


def _in_any(
    calls: pd.DataFrame, chosen: Sequence[_Chosen], shown: Sequence[ShownRank]
) -> NDArray[np.bool_]:
    """Tell for which calls there may be room in a step that is shown, on the clock of any rank."""
    start, end = (calls[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    offsets = [one.offset_ns for one in shown]
    found = np.zeros(len(calls), dtype=np.bool_)
    for one in chosen:
        first, last = one.window
        is_near = (start < last + max(offsets)) & (end > first + min(offsets))
        found |= is_near & (end - start >= one.room.least_ns)
    return found


def _window(rows: pd.DataFrame, shown: Sequence[ShownRank]) -> tuple[int, int]:
    """Return when any rank that is shown is in these periods, on the common clock."""
    offsets = {one.rank: one.offset_ns for one in shown}
    own = rows[rows["rank"].isin(offsets).to_numpy()]
    if own.empty:
        own, offsets = rows, dict.fromkeys(rows["rank"].tolist(), 0)
    moved = own["rank"].map(offsets).astype(np.int64)
    return int((own["start_ns"] - moved).min()), int((own["end_ns"] - moved).max())


def _span(work: Sequence[pd.DataFrame], repeat: int, shown: Sequence[ShownRank]) -> tuple[int, int]:
    """Return the first start and last end of the `work` of all shown ranks, on the common clock."""
    ends = pd.concat([extents(part) for part in work if len(part)])
    offsets = {one.rank: one.offset_ns for one in shown}
    ends = ends[ends.index.isin([(rank, repeat) for rank in offsets])]
    moved = np.array([offsets[int(rank)] for rank, _ in ends.index], dtype=np.int64)
    start = int((ends["first"].to_numpy(np.int64) - moved).min())
    return start, int((ends["last"].to_numpy(np.int64) - moved).max())


def _whole(
    span: tuple[int, int],
    tracks: Sequence[Mapping[str, Any]],
    shown: Sequence[ShownRank],
    rows: pd.DataFrame,
    steps: pd.DataFrame,
) -> dict[str, Any]:
    """Return the whole recording: ranks, steps, and how busy each of the `tracks` is."""
    start, end = span
    reference = shown[0]
    marked = of_repeat(steps, (reference.rank, int(rows["repeat"].iloc[0]))).head(_MARKED)
    begin = marked["start_ns"].to_numpy(np.int64) - reference.offset_ns - start
    length = (marked["end_ns"] - marked["start_ns"]).to_numpy(np.int64)
    return {
        "length_ns": end - start,
        "ranks": [asdict(one) | {"roles": list(one.roles)} for one in shown],
        "steps": {
            "step": marked["step"].tolist(),
            "start_ns": begin.tolist(),
            "dur_ns": length.tolist(),
            "is_steady": [int(step in set(rows["step"])) for step in marked["step"]],
        },
        "tracks": [*tracks],
    }


def _detail(
    chosen: _Chosen,
    every: list[Track],
    lines: Sequence[Mapping[str, Any]],
    origin_ns: int,
    config: Config,
) -> Detail:
    """Return everything that ran in one step, in ns since its first rank began it."""
    start, end = chosen.window
    tracks, left_out = kept(every, config.max_slices)
    data = encoded(tracks, start)
    data["tracks"] += lines
    data |= {
        "step": chosen.step,
        "role": chosen.role,
        "start_ns": start - origin_ns,
        "length_ns": end - start,
        "left_out": {
            "slices": left_out["slices"] + chosen.room.left_out,
            "longest_ns": max(left_out["longest_ns"], chosen.room.longest_ns),
        },
    }
    return Detail.of(_NAMES[chosen.role].format(chosen.step), data)
