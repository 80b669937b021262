"""Differences of traces: the causes of the difference, and the operators that changed."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import PositiveInt

from profkit.analyze._difference_findings import Difference, checked, finding, times_larger
from profkit.analyze._difference_graph import differences
from profkit.analyze.base import Behaviour, ByRun, Columns, Mapped, analysis
from profkit.analyze.shared.drawn_waterfalls import CHART, Drawn, numbers, waterfall_tables
from profkit.analyze.shared.matched_parts import matched
from profkit.analyze.shared.paired_parts import paired_parts, unnumbered
from profkit.analyze.shared.representative_ranks import left_out, representative
from profkit.analyze.shared.waterfall import waterfall_of
from profkit.core.result import Abstention, Chart, Result, Table, table
from profkit.core.settings import Settings
from profkit.core.step_time import unprofiled_mean

KINDS = ("operator", "runtime", "kernel")
_BY_NAME = ["name", "kind"]
_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/trace_diff.yaml``."""

    base: str = ""
    """Run that the others are compared with; empty for the first of the selection."""

    rank: int = -1
    """Rank that is compared in every run; -1 for the one that decides how long the step is, and for
    the mean of all in what is counted by name."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    tolerance: float = 0.01
    """Change of a count, as a share of it, under which it counts as the same."""

    most_ranks: PositiveInt = 16
    """Ranks of a single run that are compared with its lowest. Of more: those whose time differs
    most from the median rank's, and some others."""

    max_rows: int = 200
    """Rows kept of each table for each comparison."""

    max_frames: PositiveInt = 3000
    """Frames of the flame graph of a comparison; of more the smallest are joined."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """One side of a comparison: a run, or a rank of the only run."""

    label: str
    run: str
    rank: int
    """The rank that is compared, -1 for all."""


_ROWS = Columns("rank repeat step name start_ns end_ns")


def counted_by_name(
    cpu_ops: Annotated[pd.DataFrame, _ROWS],
    runtime_calls: Annotated[pd.DataFrame, _ROWS],
    kernels: Annotated[pd.DataFrame, _ROWS],
    config: Config,
) -> dict[str, pd.DataFrame]:
    """Return of one run how often each name was called in how many ns, and in how many steps.

    Both by rank and ``within``: 2 in the steps that count, 1 in the first ones, 0 outside of any.
    """
    where = ["rank", "within"]
    # One after another: what the groups are made of takes several times the memory of the rows.
    counted = [
        _counted(kind, rows, config.skip_first)
        for kind, rows in zip(KINDS, (cpu_ops, runtime_calls, kernels), strict=True)
    ]
    names, passes = (pd.concat(tables, ignore_index=True) for tables in zip(*counted, strict=True))
    return {
        "names": names.sort_values([*where, *_BY_NAME], ignore_index=True),
        "passes": passes.drop_duplicates().groupby(where, as_index=False).size(),
    }


def _counted(kind: str, rows: pd.DataFrame, skip_first: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the calls of a kind by rank, ``within`` and name, and the steps that they are in."""
    step = rows["step"].to_numpy(np.int64)
    own = rows[["rank", "repeat", "step"]].assign(
        within=np.where(step < 0, 0, np.where(step < skip_first, 1, 2)), kind=kind
    )
    passes = own[["rank", "within", "repeat", "step"]].drop_duplicates()
    names = rows["name"].astype("category")
    known = {name: unnumbered(str(name)) for name in names.cat.categories}
    own = own.drop(columns=["repeat", "step"])
    own["name"] = names.map(known).astype(object)
    own["ns"] = rows["end_ns"] - rows["start_ns"]
    groups = own.groupby(["rank", "within", *_BY_NAME])["ns"]
    return groups.agg(["size", "sum"]).reset_index(), passes


@analysis(title="Differences of traces", across="runs", mapped_by=counted_by_name)
def analyze(
    mapped: Mapped,
    causes: ByRun | None,
    steps: ByRun | None,
    behaviour: dict[str, Behaviour],
    config: Config,
) -> Result:
    """Which causes make the step time differ, and what ran on both sides?

    Several runs are compared with the first; of a single run each rank is compared with the lowest.
    Operators are matched along the module tree: the same, renamed, fused, new and removed ones.
    Intervals are over the repeats that both have. Where the unprofiled steps differ in the other
    direction, the profiler slows one side more, and that is said. Counts and times by name are per
    step of a rank and contain what is enclosed, as in HTA's comparison.
    """
    sides, left = _sides(mapped, causes or {}, config)
    if len(sides) < 2:  # noqa: PLR2004 - a comparison needs two
        return Result.abstain(
            "differences", "there is one run of one rank: name another run, or capture every rank"
        )
    base, *others = sides
    measured = {side.label: _by_name(mapped[side.run], side.rank) for side in sides}
    names = [_changes(measured[base.label], measured[side.label], side, config) for side in others]
    ran = {
        label: {*map(str, rows.index.get_level_values("name"))} for label, rows in measured.items()
    }
    found = [one for side in others if (one := _difference(base, side, causes or {}, ran))]
    missing = [*left, *_undivided(base, others, {one.label for one in found})]
    # That ranks differ is no finding: what waits for the last of them is a cause.
    are_runs = base.run != others[0].run
    unprofiled = {run: unprofiled_mean(result) for run, result in (steps or {}).items()}
    return Result(
        findings=tuple(
            finding(base.label, one, unprofiled, times_larger(behaviour, base.label, one.label))
            for one in found
            if are_runs
        ),
        tables={**_tables(base.label, found, config), "by_name": _name_table(base.label, names)},
        charts=tuple(_charts(found)),
        drawings=differences(
            {one.label: (one.parts, one.matched) for one in found}, base.label, config.max_frames
        ),
        abstentions=tuple(missing),
    )


def _undivided(base: _Side, others: Sequence[_Side], found: Container[str]) -> Iterator[Abstention]:
    """Yield of which sides the causes of the difference are not known."""
    absent = [side.label for side in others if side.label not in found]
    if absent:
        more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
        yield Abstention(
            what="causes of the difference",
            reason=f"the step time of {base.label}, or of {', '.join(absent[:_NAMED])}{more},"
            " was not divided: the analysis causes did not run, or found no work in its steps",
        )


def _sides(
    mapped: Mapped, causes: Mapping[str, Result], config: Config
) -> tuple[list[_Side], tuple[Abstention, ...]]:
    """Return the sides of the comparison, the base first, and which ranks of a run are none."""
    runs = [run for run, counts in mapped.items() if len(counts["names"])]
    if len(runs) > 1:
        runs.sort(key=lambda run: run != config.base)
        return [_Side(label=run, run=run, rank=config.rank) for run in runs], ()
    if not runs:
        return [], ()
    times = mapped[runs[0]]["names"].groupby("rank")["sum"].sum().rename("time_ns").reset_index()
    ranks = np.sort(times["rank"].to_numpy(np.int64))
    divided = np.intersect1d(ranks, _divided(causes.get(runs[0])))
    if len(ranks) > config.most_ranks and len(divided):
        ranks = divided
    base, *others = ranks.tolist()
    chosen = representative(times, np.array(others, dtype=np.int64), config.most_ranks)
    sides = [_Side(label=f"rank {rank}", run=runs[0], rank=rank) for rank in (base, *chosen)]
    return sides, left_out("differences", [base, *chosen], len(times))


def _divided(causes: Result | None) -> list[int]:
    """Return the ranks of which is known what their causes consist of."""
    parts = causes.tables.get("parts") if causes else None
    return sorted({int(str(row["rank"])) for row in parts.records()}) if parts else []


def _by_name(counts: Mapping[str, pd.DataFrame], rank: int) -> pd.DataFrame:
    """Return count and ns per step of a rank, -1 for all ranks, by name and kind.

    Of the steps that count; where there is none of the first ones, or else of all that there is.
    """
    names, passes = counts["names"], counts["passes"]
    if rank >= 0:
        names, passes = (rows[(rows["rank"] == rank).to_numpy()] for rows in (names, passes))
    least = int(passes["within"].max()) if len(passes) else 0
    own = names[(names["within"] >= least).to_numpy()]
    steps = int(passes.loc[(passes["within"] >= least).to_numpy(), "size"].sum())
    return own.groupby(_BY_NAME)[["size", "sum"]].sum() / max(steps, 1)


def _changes(
    before: pd.DataFrame, after: pd.DataFrame, side: _Side, config: Config
) -> pd.DataFrame:
    both = [before.add_suffix("_base"), after.add_suffix("_other")]
    joined = pd.concat(both, axis=1, join="outer").fillna(0.0).sort_index()
    base, other = (joined[f"size_{label}"].to_numpy(np.float64) for label in ("base", "other"))
    rows = joined.reset_index().assign(
        compared=side.label,
        change=_change(base, other, config.tolerance),
        change_ns=(joined["sum_other"] - joined["sum_base"]).to_numpy(),
    )
    order = np.argsort(-rows["change_ns"].abs().to_numpy(), kind="stable")
    return rows.iloc[order].head(config.max_rows)


def _change(
    base: NDArray[np.float64], other: NDArray[np.float64], tolerance: float
) -> NDArray[np.object_]:
    """Return for each pair of counts added, removed, more, fewer, or "" for the same."""
    result = np.full(len(base), "", dtype=object)
    apart = np.abs(other - base) > tolerance * np.maximum(base, other)
    result[apart & (other > base)] = "more"
    result[apart & (other < base)] = "fewer"
    result[(base == 0) & (other > 0)] = "added"
    result[(base > 0) & (other == 0)] = "removed"
    return result


def _name_table(base: str, names: list[pd.DataFrame]) -> Table:
    labels = {"sum_base": "base_ns", "sum_other": "other_ns"}
    labels |= {"size_base": "base_count", "size_other": "other_count"}
    columns = ["compared", "name", "base_ns", "other_ns", "change_ns"]
    columns += ["base_count", "other_count", "change", "kind"]
    return table(
        pd.concat(names).rename(columns=labels)[columns],
        title="What changed by name",
        note=f"Per step of a rank, against {base}. Times contain what is enclosed.",
    )


def _difference(
    base: _Side, side: _Side, causes: Mapping[str, Result], ran: Mapping[str, set[str]]
) -> Difference | None:
    """Return how a side differs from the base; `ran` are the names of all that ran on each."""
    if base.run not in causes or side.run not in causes:
        return None
    ranks = (base.rank, side.rank) if side.rank >= 0 else None
    parts = paired_parts(causes[base.run], causes[side.run], ranks)
    if parts is None:
        return None
    pairs = [checked(pair, ran[base.label], ran[side.label]) for pair in matched(parts)]
    return Difference(label=side.label, parts=parts, why=waterfall_of(parts), matched=pairs)


def _tables(base: str, found: list[Difference], config: Config) -> dict[str, Table]:
    if not found:
        return {}
    note = f"Per traced step, against {base}; without an interval where there is one capture."
    drawn = [Drawn(before=base, after=one.label, compared=one.label, why=one.why) for one in found]
    pairs = [
        {"compared": one.label, "change": match.change, "module": match.module}
        | {"before": " + ".join(match.before), "after": " + ".join(match.after)}
        | numbers(match.bar)
        for one in found
        for match in one.matched[: config.max_rows]
    ]
    return {
        **waterfall_tables(drawn, note),
        "matched": table(
            pd.DataFrame(pairs), title="Operators matched along the module tree", note=note
        ),
    }


def _charts(found: list[Difference]) -> Iterator[Chart]:
    if found:
        yield CHART
    yield Chart(
        kind="bar",
        title="Largest changes of time by name",
        table="by_name",
        x="name",
        y=("change_ns",),
        color="compared",
        horizontal=True,
    )
