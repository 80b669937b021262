"""Ranks and steps: which rank takes longer than the others, in which steps, and in what."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import Columns, analysis
from profkit.analyze.division import names
from profkit.analyze.shared import intervals, matrix
from profkit.analyze.shared.large_table import LargeTable, portions_of_batches
from profkit.analyze.shared.matrix import Layer
from profkit.analyze.shared.representative_ranks import representative
from profkit.analyze.shared.step_times import UnprofiledSteps, with_step_times
from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result
from profkit.core.settings import Settings

_OPS = Columns("rank repeat phase start_ns end_ns step")
_PHASES = {
    "data": "Data loading",
    "forward": "Forward",
    "backward": "Backward",
    "optimizer": "Optimizer",
}
_PLACE = ["rank", "step"]
_AT_ONCE = 12_000
_SMALL = 0.002


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/rank_steps.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    most_ranks: PositiveInt = 1000
    """Ranks drawn; of more, half are those that differ most from the others."""

    most_cells: PositiveInt = 20_000
    """Cells of a map: of more, neighbouring steps are averaged."""

    most_causes: PositiveInt = 16
    """Causes drawn, those with most time."""


@analysis(title="Ranks and steps", compares_ranks=True)
def analyze(  # noqa: PLR0913, PLR0917 - each names a table
    steps: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _OPS],
    unprofiled: UnprofiledSteps,
    causes: Result | None,
    stragglers: Result | None,
    hosts: pd.DataFrame,
    config: Config,
) -> Result:
    """How long does each step take on each rank: which is late, since when, and in what?

    Times are means over the repeats. Causes are those of the traced steps and sum to them. A phase
    lasts as long as the program is inside it, or as the GPU works on what was launched in it; the
    rest of the step is outside of all phases. Where a rank is late the others wait, so their steps
    take as long as its own: look at what others wait for, and at causes other than waiting. Where
    several hosts are known, the same is shown for the mean of the ranks of each host.
    """
    layers = [
        *_whole_steps(unprofiled, steps, causes, config.skip_first),
        *_of_causes(causes, config.most_causes),
        *_of_phases(cpu_ops, kernels, steps, config),
        *_waited_for(stragglers, steps),
    ]
    if not layers:
        return Result.abstain("the steps of each rank", "no step was recorded")
    if len(pd.concat([layer.times[_PLACE] for layer in layers]).drop_duplicates()) == 1:
        reason = "one step of one rank was recorded: causes and steps tell of it"
        return Result.abstain("which rank or step takes longer", reason)
    whole = matrix.by_step(layers, config.most_ranks, config.most_cells)
    drawings = {"rank_steps": _drawing("Time of each step on each rank", whole)}
    if len(set(hosts["host"])) > 1:
        whole = _by_host(layers, hosts, config)
        drawings["host_steps"] = _drawing("Time of each step on each host", whole)
    if parts := _ranks_by_cause(causes, config):
        title = "Causes of each rank's step time"
        drawings["rank_causes"] = Drawing(kind="matrix", title=title, data=parts)
    return Result(drawings=drawings)


def _whole_steps(
    unprofiled: pd.DataFrame | None, steps: pd.DataFrame, causes: Result | None, skip_first: int
) -> Iterator[Layer]:
    """Yield the step times: those of the unprofiled run, and those that causes sum to."""
    if unprofiled is not None and len(unprofiled):
        kept = with_step_times(unprofiled, skip_first)
        kept = kept if len(kept) else with_step_times(unprofiled, 0)
        yield _layer("Step time, unprofiled", "Step", kept, "step_time_ns")
    divided = _rows(causes, "by_step")
    if len(divided):
        yield _layer("Step time, traced", "Step", divided, "step_time_ns")
    elif len(steps) and unprofiled is None:
        kept = with_step_times(steps, skip_first)
        kept = kept if len(kept) else with_step_times(steps, 0)
        yield _layer("Step time, traced", "Step", kept, "step_time_ns")


def _layer(title: str, group: str, rows: pd.DataFrame, column: str) -> Layer:
    return Layer(
        title=title, group=group, times=rows[_PLACE].assign(time_ns=rows[column].to_numpy())
    )


def _rows(result: Result | None, name: str) -> pd.DataFrame:
    """Return a table of another analysis, empty if it has none."""
    found = result.tables.get(name) if result else None
    return pd.DataFrame(list(found.rows), columns=list(found.columns)) if found else pd.DataFrame()


def _of_causes(causes: Result | None, most: int) -> Iterator[Layer]:
    rows = _rows(causes, "by_step")
    titles = _titles(causes)
    for column in _largest(rows, most):
        yield _layer(titles[column], "Cause", rows, column)


def _largest(rows: pd.DataFrame, most: int) -> list[str]:
    """Return the columns of the causes with most time, without those that take next to none."""
    columns = [name for name in rows if str(name).endswith("_ns") and name != "step_time_ns"]
    sums = rows[columns].sum().sort_values(ascending=False, kind="stable")
    return [str(name) for name in sums[sums > _SMALL * sums.sum()].index[:most]]


def _titles(causes: Result | None) -> dict[str, str]:
    """Return the title of each column of the causes of every step."""
    known = _rows(causes, "causes")
    titles = dict(zip(known["id"], known["title"], strict=True)) if len(known) else {}
    columns = [str(name) for name in _rows(causes, "by_step")]
    ids = [name.removesuffix("_ns") for name in columns]
    return {
        column: titles.get(cause) or names.title(cause)
        for column, cause in zip(columns, ids, strict=True)
    }


def _counted(rows: pd.DataFrame, steps: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the rows of steps that count, with their phase."""
    known = steps["step"].to_numpy()
    least = config.skip_first if (known >= config.skip_first).any() else 0
    inside = (rows["step"] >= least).to_numpy() & (rows["phase"] != "").to_numpy()
    return rows[inside]


def _of_phases(
    cpu_ops: LargeTable, kernels: LargeTable, steps: pd.DataFrame, config: Config
) -> Iterator[Layer]:
    """Yield the time in each phase, of the program and of the GPU."""
    of_cpu, of_gpu = (
        pd.concat(
            [
                _phase_times(_counted(rows, steps, config) for rows in portions)
                for portions in portions_of_batches(table)
            ]
        )
        for table in (cpu_ops, kernels)
    )
    for side, times in (("CPU", of_cpu), ("GPU", of_gpu)):
        for phase, title in _PHASES.items():
            own = times[(times["phase"] == phase).to_numpy()]
            if len(own):
                name = f"{title}, {side}" if len(of_gpu) else title
                yield _layer(name, "Phase", own, "time_ns")


def _phase_times(portions: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the time that the spans of each phase cover, by rank, repeat and step."""
    keys = ["rank", "repeat", "step", "phase"]
    found: dict[tuple[Any, ...], intervals.Intervals] = {}
    for rows in portions:
        for where, own in rows.groupby(keys, observed=True):
            before = found.get(where, intervals.nothing())
            spans = intervals.union(intervals.intervals(own["start_ns"], own["end_ns"]))
            found[where] = intervals.union(np.concatenate((before, spans)))
    times = [(*where, intervals.total(spans)) for where, spans in sorted(found.items())]
    return pd.DataFrame(times, columns=[*keys, "time_ns"])


def _waited_for(stragglers: Result | None, steps: pd.DataFrame) -> Iterator[Layer]:
    """Yield how long the other ranks together wait for each, on average over the repeats."""
    rows = _rows(stragglers, "by_step")
    if len(rows) and len(steps):
        repeats = max(steps["repeat"].nunique(), 1)
        mean = rows.assign(mean_ns=rows["caused_wait_ns"] / repeats)
        every = steps[_PLACE].drop_duplicates().merge(mean, on=_PLACE, how="left").fillna(0)
        yield _layer("Others wait for it", "Waiting", every, "mean_ns")


def _by_host(layers: Sequence[Layer], hosts: pd.DataFrame, config: Config) -> dict[str, Any]:
    """Return the matrix of hosts and steps: means of the ranks that ran on a host."""
    of_rank = hosts.drop_duplicates("rank").set_index("rank")["host"].astype(object)
    names = sorted(set(of_rank))
    number = {name: index for index, name in enumerate(names)}
    placed = []
    for layer in layers:
        host = layer.times["rank"].map(of_rank).map(number)
        known = layer.times.assign(rank=host)[host.notna().to_numpy()]
        if len(known):
            placed.append(replace(layer, times=known.astype({"rank": np.int64})))
    data = matrix.by_step(placed, config.most_ranks, config.most_cells)
    shown = [names[index] for index in data["rows"]["names"]]
    return data | {"rows": {**data["rows"], "of": "host", "names": shown}}


def _drawing(title: str, whole: dict[str, Any]) -> Drawing:
    data, details = _divided(whole)
    return Drawing(kind="matrix", title=title, data=data, details=details)


def _divided(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[Detail, ...]]:
    """Return what the page shows at once, and the layers that it reads when they are chosen."""
    layers: Sequence[dict[str, Any]] = data["layers"]
    before = itertools.accumulate((len(layer["values"]) for layer in layers), initial=0)
    at_once = sum(values < _AT_ONCE for values in itertools.islice(before, len(layers)))
    later = layers[at_once:]
    read = ("values", "alike")
    details = tuple(
        Detail.of(layer["title"], {key: layer[key] for key in read if key in layer})
        for layer in later
    )
    named = [{key: [] if key in read else value for key, value in layer.items()} for layer in later]
    return data | {"layers": [*layers[:at_once], *named]}, details


def _ranks_by_cause(causes: Result | None, config: Config) -> dict[str, Any] | None:
    """Return the matrix of ranks and causes: the mean time per step."""
    rows = _rows(causes, "by_step")
    largest = _largest(rows, config.most_causes)
    if not largest or len(set(rows["rank"])) == 1:
        return None
    titles = _titles(causes)
    means = rows.groupby("rank")[largest].mean()
    times = rows[["rank"]].assign(time_ns=rows["step_time_ns"])
    chosen = representative(times, means.index.to_numpy(np.int64), config.most_ranks)
    return {
        "rows": {"of": "rank", "names": chosen, "total": len(means)},
        "columns": {"of": "", "names": [titles[name] for name in largest]},
        "layers": [{"title": "Mean per step", "group": ""} | matrix.values(means.loc[chosen])],
    }
