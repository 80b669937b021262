"""Flame graphs: the time of a step by module, operator and kernel, and by Python stack."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze._called_frames import MAIN, PythonTimes, StepTimes, thread_titles
from profkit.analyze.base import Columns, OfTool, analysis
from profkit.analyze.division import divided_ranks
from profkit.analyze.division.partition import spans_of
from profkit.analyze.division.periods import Periods, periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared.frame_tree import Stack, tree_of
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.launch_calls import CALLS
from profkit.analyze.shared.step_spans import operator_spans
from profkit.analyze.shared.step_times import ClockedSteps
from profkit.analyze.shared.step_windows import by_repeat, positions_by_repeat
from profkit.analyze.tracks.shown_ranks import ShownRank, shown_ranks
from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.tables import schema
from profkit.tables.rank_clocks import matched_collectives

_SAMPLER = "torch_profiler"
_OPS = Columns(
    "rank repeat op parent tid name kind start_ns end_ns step forward module phase stack"
)
_PYTHON = Columns("rank repeat call caller tid name kind start_ns end_ns")
_KERNELS = Columns(
    "rank repeat device stream name start_ns end_ns correlation op step module phase copy_kind"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/flame_graph.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_ranks: PositiveInt = 8
    """Ranks shown; of more the first, and those with least, median and most work."""

    max_frames: PositiveInt = 5000
    """Frames of a rank; of more the smallest are joined."""


@analysis(title="Flame graphs")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, CALLS],
    python_calls: Annotated[LargeTable, _PYTHON],
    collectives: pd.DataFrame,
    samples: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_samples")],
    sampled_steps: ClockedSteps,
    config: Config,
) -> Result:
    """Which modules, operators, kernels and Python functions take the time of a step?

    Times are the mean over the steady steps of a rank, in all repeats. GPU time is that in which
    the GPU runs anything, and belongs to the kernel that began first; CPU time is that of all
    threads, of each range or operator without what it calls. A backward operator is below the
    module of the forward operator whose gradient it computes. In time order, frames are where they
    began first in a step.
    """
    if not any((*cpu_ops.groups(), *kernels.groups())):
        return Result.abstain("a flame graph", "neither operators nor kernels were recorded")
    on_gpu, _ = divided_ranks.placed_spans(kernels, runtime_calls)
    found = periods(steps, operator_spans(cpu_ops), on_gpu, config.skip_first, sampled_steps)
    if found.rows.empty:
        return Result.abstain("a flame graph", "what was recorded took no time")
    matched = matched_collectives(collectives)
    repeat = int(found.rows["repeat"].min())
    shown = shown_ranks(found.rows, matched, repeat, config.max_ranks)
    tables: dict[str, pd.DataFrame | LargeTable] = {
        "ops": cpu_ops,
        "kernels": kernels,
        "calls": runtime_calls,
    }
    tables |= divided_ranks.sampled_tables(samples, None, None, sampled_steps)
    tables["collectives"] = matched.rows
    python = _python_times(found, python_calls, shown)
    of_step, of_python = [], []
    for one in shown:
        times: dict[tuple[int, int], StepTimes] = {}
        for rank in _repeats(found, tables, one.rank, python):
            times.setdefault(rank.where, StepTimes()).add(rank)
            del rank
        periods_of_rank = int((found.rows["rank"] == one.rank).sum())
        stacks = (repeat.stacks() for repeat in times.values())
        of_step.append(_detail(one, periods_of_rank, stacks, config))
        if any(python[where].count for where in times):
            called = (python[where].stacks(thread_titles(of.roles)) for where, of in times.items())
            of_python.append(_detail(one, periods_of_rank, called, config))
    count = int(found.rows["rank"].nunique())
    drawings = {"step_frames": _of_steps(of_step, count, has_gpu=len(on_gpu) > 0)}
    if of_python:
        drawings["python_frames"] = _of_python(of_python, count)
    return Result(drawings=drawings)


def _of_steps(details: Sequence[Detail], count: int, *, has_gpu: bool) -> Drawing:
    """Draw the frames of the shown of `count` ranks by module, operator and kernel."""
    on_gpu = [{"title": "GPU time", "column": 0}] if has_gpu else []
    measures = [*on_gpu, {"title": "CPU time", "column": 1}]
    return Drawing(
        kind="flame",
        title="A step by module, operator and kernel",
        data=_look(count) | {"measures": measures, "groups": ["Thread", "Phase"]},
        details=tuple(details),
    )


def _of_python(details: Sequence[Detail], count: int) -> Drawing:
    """Draw the frames of the shown of `count` ranks by Python function."""
    measures = [{"title": "Time", "column": 0}]
    # Threads that wait take as long as the one that works.
    shown = {"measures": measures, "groups": ["Thread"], "first": [MAIN]}
    return Drawing(
        kind="flame",
        title="A step by Python stack",
        data=_look(count) | shown,
        details=tuple(details),
    )


def _look(count: int) -> dict[str, Any]:
    return {"unit": "ns", "of": "Rank", "total": count}


def _python_times(
    found: Periods, python_calls: LargeTable, shown: Sequence[ShownRank]
) -> dict[tuple[int, int], PythonTimes]:
    """Return what Python took in each repeat in which a rank that is shown has periods."""
    own = found.rows[found.rows["rank"].isin([one.rank for one in shown]).to_numpy()]
    made = {
        where: PythonTimes(spans_of(own.iloc[rows]))
        for where, rows in positions_by_repeat(own).items()
    }
    for portion in python_calls.portions():
        of = by_repeat(portion)
        for where, times in made.items():
            if len(calls := of(where)):
                times.add(calls)
    return made


def _repeats(
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
    rank: int,
    python: Mapping[tuple[int, int], PythonTimes],
) -> Iterator[RecordedRank]:
    """Yield what a rank recorded in each repeat in which it has periods, perhaps in parts.

    Where it has no Python calls, those of sampled stacks are added to `python`.
    """
    own = found.rows[(found.rows["rank"] == rank).to_numpy()]
    for where, rows, recorded in divided_ranks.recorded(replace(found, rows=own), tables):
        if python[where].count:
            recorded["samples"] = recorded["samples"].iloc[:0]
        made = RecordedRank.of(where, rows, python=schema.frame("python_calls"), **recorded)
        if len(made.python):
            python[where].add(made.python)
        yield made


def _detail(
    one: ShownRank, count: int, stacks: Iterable[Iterable[Stack]], config: Config
) -> Detail:
    """Return the tree of one rank, in ns of each of its `count` periods."""
    tree = tree_of(chain.from_iterable(stacks))
    name = f"rank {one.rank}" + (f" ({', '.join(one.roles)})" if one.roles else "")
    per_period = replace(tree, own=tree.own // count)
    return Detail.of(name, per_period.plain(config.max_frames, tree.own.shape[1]) | {"of": count})
