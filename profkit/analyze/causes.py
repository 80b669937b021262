"""Causes: the time of a step from its start to the next, divided once among what it is spent on."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import PositiveInt

from profkit.analyze.base import Behaviour, OfTool, Recordings, analysis
from profkit.analyze.division import divided_ranks, gpu, names, trust
from profkit.analyze.division.details import Detail, details, per_step
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.parts import parts
from profkit.analyze.division.pattern_matches import matches
from profkit.analyze.division.periods import SINGLE_STEPS, Periods, periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.thread_waits import queued_share
from profkit.analyze.shared.launch_calls import launches
from profkit.analyze.shared.representative_ranks import left_out, representative
from profkit.analyze.shared.step_windows import WHERE, filtered
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.core.verdict import Trust
from profkit.tables import schema
from profkit.tables.rank_clocks import matched_collectives

_MS = 1e6
_SAMPLER = "torch_profiler"
_WAITING = f"{gpu.EXPOSED}.waiting"
_SMALL = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/causes.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_rows: int = 20_000
    """Rows kept of the table of single steps, which the map of ranks and steps is drawn from."""

    most_ranks: PositiveInt = 64
    """Ranks whose causes are divided among modules, operators, lines and kernels; more take time
    and memory. Of more ranks half are those whose steps differ most, and that of the verdict."""


@dataclass(frozen=True, kw_only=True)
class _Divided:
    """One rank and repeat with the partition of its periods."""

    rank: RecordedRank
    time: Partition
    details: dict[str, Detail] = field(default_factory=dict)

    def parts(self) -> pd.DataFrame:
        """Return what the causes consist of."""
        return parts(self.rank, self.time)


@dataclass(frozen=True, kw_only=True)
class _OfRank:
    """What is kept of one rank, over its repeats, when the next one is divided."""

    number: int
    rows: pd.DataFrame
    by_step: pd.DataFrame
    launching_ns: NDArray[np.int64]
    """How long the CPU works to launch, at least and at most, see `RecordedRank.launching_ns`."""

    queued: float
    """See `queued_share`; the largest of its repeats."""

    parts: list[pd.DataFrame]
    """Of each repeat; none of a rank that is not among those whose parts are kept."""

    whole: list[_Divided]
    """Its recordings, if it is the only rank."""


@analysis(title="Causes")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    annotations: pd.DataFrame,
    python_calls: pd.DataFrame,
    collectives: pd.DataFrame,
    devices: pd.DataFrame,
    observer_tax: Result | None,
    samples: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_samples")],
    threads: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_threads")],
    pauses: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_pauses")],
    processes: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="processes")],
    recordings: Recordings,
    hardware: Hardware,
    behaviour: Behaviour,
    config: Config,
) -> Result:
    """Divide the time of a steady step once: where does it go, what can be gained at most.

    Each instant from the start of a step to the start of the next belongs to one cause, so causes
    sum to the step. GPU computing comes before communication, copies and sets that it hides; idle
    time of the GPU goes to what the CPU thread did that launches next. Without a GPU, operators
    come before communication, and Python is the rest. The gain is the exposed time.
    """
    if cpu_ops.empty and kernels.empty:
        return Result.abstain("causes", "neither operators nor kernels were recorded")
    launched = launches(kernels, runtime_calls)
    misplaced = divided_ranks.misplaced(kernels, launched)
    kernels = filtered(kernels, pd.Series(~misplaced, index=kernels.index))
    found = periods(steps, cpu_ops, kernels, config.skip_first)
    if found.rows.empty:
        return Result.abstain("causes", "what was recorded took no time")
    matched = matched_collectives(collectives)
    tables = {"ops": cpu_ops, "kernels": kernels, "calls": runtime_calls, "python": python_calls}
    tables |= divided_ranks.sampled_tables(samples=samples, threads=threads, pauses=pauses)
    tables["collectives"] = divided_ranks.with_late_rank(matched)
    chosen, count = _with_parts(found, config.most_ranks)
    ranks = _ranks_one_by_one(found, tables, chosen)
    rows = pd.concat([one.rows for one in ranks], ignore_index=True)
    shown = _decisive(rows)
    # Again: as a whole, all ranks would take several times the memory of the tables.
    of_shown = ranks[0].whole or list(_divided(_of_number(found, shown), tables))
    seen = trust.Seen(
        periods=found,
        matched=matched,
        collectives=collectives,
        recordings=recordings,
        slowdown=_slowdown(observer_tax, recordings),
        steps=steps["step"].nunique(),
        queued=max(one.queued for one in ranks),
        **_counted(cpu_ops, kernels, runtime_calls, devices, launched["call"], misplaced),
    )
    known = {"hardware": hardware, "behaviour": behaviour, "steps": steps, "devices": devices}
    known |= {"annotations": annotations, "collectives": collectives, "processes": processes}
    matching = _matches(of_shown[0], rows, known)
    by_step = pd.concat([one.by_step for one in ranks], ignore_index=True).fillna(0)
    consist = pd.concat(list(_parts(ranks, of_shown)), ignore_index=True)
    of_ranks, checks = _ranks(by_step, ranks, shown), trust.checks(seen)
    made = _result(rows, shown, by_step, consist, of_ranks, matching, checks, found, config)
    missing = left_out("modules, operators and lines", sorted({*chosen, shown}), count)
    return replace(made, abstentions=(*made.abstentions, *missing))


def _divided(found: Periods, tables: Mapping[str, pd.DataFrame]) -> Iterator[_Divided]:
    """Yield the recordings of each rank, one after another, with their causes."""
    for rank, time in divided_ranks.divided(found, tables):
        yield _Divided(rank=rank, time=time, details=details(rank, time))


def _of_number(found: Periods, rank: int) -> Periods:
    return replace(found, rows=found.rows[(found.rows["rank"] == rank).to_numpy()])


def _ranks_one_by_one(
    found: Periods, tables: Mapping[str, pd.DataFrame], chosen: Sequence[int]
) -> list[_OfRank]:
    """Return what is kept of each rank: the parts of `chosen` ones, and all of the only one."""
    ranks = []
    for number, own in groupby(_divided(found, tables), lambda one: one.rank.where[0]):
        recordings = list(own)
        parts = [one.parts() for one in recordings] if number in chosen else []
        ranks.append(
            _OfRank(
                number=number,
                rows=_rows(recordings),
                by_step=pd.concat([_by_step(one) for one in recordings]),
                launching_ns=np.sum([one.rank.launching_ns for one in recordings], axis=0),
                queued=max(queued_share(one.rank) for one in recordings),
                parts=parts,
                whole=recordings if len(set(found.rows["rank"])) == 1 else [],
            )
        )
    return ranks


def _with_parts(found: Periods, most: int) -> tuple[list[int], int]:
    """Return the ranks whose parts are kept, at most `most`, and of how many."""
    times = found.rows.assign(time_ns=found.rows["end_ns"] - found.rows["start_ns"])
    numbers = np.unique(found.rows["rank"].to_numpy(np.int64))
    return representative(times, numbers, most), len(numbers)


def _parts(ranks: Sequence[_OfRank], shown: Sequence[_Divided]) -> Iterator[pd.DataFrame]:
    """Yield the parts of each rank that has them, and of the one that is shown."""
    for one in ranks:
        is_shown = one.number == shown[0].rank.where[0]
        yield from one.parts or (recording.parts() for recording in shown if is_shown)


def _matches(one: _Divided, rows: pd.DataFrame, known: Mapping[str, Any]) -> pd.DataFrame:
    """Return what the patterns find in the first recording of the rank that is shown."""
    if known["processes"] is None:
        known = {**known, "processes": schema.frame("processes")}
    shown = rows[rows["rank"] == one.rank.where[0]]
    return matches(one.rank, one.time, shown, known, len(set(rows["rank"])))


def _counted(  # noqa: PLR0913, PLR0917 (most are tables)
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    calls: pd.DataFrame,
    devices: pd.DataFrame,
    launched_by: pd.Series,
    misplaced: NDArray[np.bool_],
) -> dict[str, Any]:
    """Return how much was recorded, and whether the CPU or the GPU is missing."""
    return {
        "misplaced": int(misplaced.sum()),
        "unlaunched": int((launched_by.to_numpy() < 0)[~misplaced].sum()),
        "kernels": len(kernels),
        "rows": len(cpu_ops) + len(kernels) + len(calls),
        "has_cpu": bool(len(cpu_ops) or len(calls)),
        "lacks_gpu": kernels.empty and bool(len(devices) or len(calls)),
    }


def _slowdown(observer_tax: Result | None, recordings: Recordings) -> Metric | None:
    """Return how much longer steps take with the tool that the causes come from, if known."""
    known = observer_tax.metrics if observer_tax else {}
    found = (known.get(f"{tool}_slowdown_ratio") for tool in recordings)
    return next((metric for metric in found if metric is not None), None)


def _rows(of_rank: Sequence[_Divided]) -> pd.DataFrame:
    """Return the tree of one rank over its repeats, one row a cause, each level summed."""
    steps = sum(len(one.rank.periods) for one in of_rank)
    whole = sum(int((one.rank.windows[:, 1] - one.rank.windows[:, 0]).sum()) for one in of_rank)
    time: dict[str, int] = {}
    about: dict[str, Detail] = {}
    for one in of_rank:
        for cause, detail in one.details.items():
            time[cause] = time.get(cause, 0) + detail.time_ns
            if cause not in about or detail.time_ns > about[cause].time_ns:
                about[cause] = detail
        for cause in one.time.parts:
            for above in names.parts_of(cause)[:-1]:
                time[above] = time.get(above, 0) + one.details[cause].time_ns
    medians = _medians(of_rank)
    own = {cause: len(one.rank.periods) for one in of_rank for cause in one.details}
    rows = [
        {
            "rank": of_rank[0].rank.where[0],
            "id": cause,
            "title": names.title(cause, _label(cause, about.get(cause))),
            "ms_per_step": total / max(steps, 1) / _MS,
            "median_ms": medians.get(cause, math.nan),
            "gain_ms": total / max(steps, 1) / _MS,
            "share": total / max(whole, 1),
            "place": about[cause].place if cause in about else "",
            "evidence": json.dumps(
                per_step(about[cause].evidence, own[cause]) if cause in about else {}
            ),
        }
        for cause, total in time.items()
        if total
    ]
    ordered = pd.DataFrame(rows, columns=list(_CAUSES))
    return ordered.sort_values(["ms_per_step", "id"], ascending=[False, True], ignore_index=True)


def _medians(of_rank: Sequence[_Divided]) -> dict[str, float]:
    """Return the median over the steps of each part of the partition, in ms."""
    rows = pd.concat([_by_step(one) for one in of_rank]).fillna(0)
    return {
        cause: float(rows[f"{cause}_ns"].median()) / _MS
        for one in of_rank
        for cause in one.time.parts
    }


_CAUSES = (
    *("rank", "id", "title", "ms_per_step", "median_ms", "gain_ms", "share", "place"),
    "evidence",
)


def _label(cause: str, about: Detail | None) -> str:
    """Return the name that the last part of an id was made of, "" if it is a word of profkit's."""
    if about is None or not about.place:
        return ""
    return about.place if cause.endswith(about.place.replace(".", "_")) else ""


def _decisive(rows: pd.DataFrame) -> int:
    """Return the rank whose causes the verdict tells: the one that waits most for others.

    Where none waits for long it is the one with the longest step, of equals the lowest.
    """
    tops = rows[~rows["id"].str.contains(".", regex=False)]
    lengths = tops.groupby("rank")["ms_per_step"].sum()
    waits = rows[rows["id"] == _WAITING].set_index("rank")["ms_per_step"]
    if len(waits) and waits.max() > _SMALL * lengths.max():
        return int(str(waits.idxmax()))
    longest = lengths[lengths >= (1 - _SMALL) * lengths.max()]
    return min(int(str(rank)) for rank in longest.index)


def _by_step(one: _Divided) -> pd.DataFrame:
    """Return one row a period with the time in ns of each cause of the partition."""
    windows = one.rank.windows
    times = {f"{name}_ns": time for name, time in one.time.times(windows).items()}
    rows = one.rank.periods[[*WHERE, "step"]].assign(step_time_ns=windows[:, 1] - windows[:, 0])
    return rows.assign(**times)


def _ranks(by_step: pd.DataFrame, known: Sequence[_OfRank], shown: int) -> pd.DataFrame:
    """Return the step time of each rank, and how long the CPU works that launches its kernels."""
    ranks = by_step.groupby("rank", observed=True)["step_time_ns"].agg(["mean", "size"])
    ranks = ranks.rename(columns={"mean": "step_time_ns", "size": "steps"})
    times = {one.number: one.launching_ns for one in known}
    launching = pd.DataFrame.from_dict(times, orient="index")
    launching.columns = pd.Index(["launching_least_ns", "launching_most_ns"])
    ranks = ranks.join(launching.div(ranks["steps"], axis=0))
    return (
        ranks.rename_axis("rank").reset_index().assign(decisive=lambda rows: rows["rank"] == shown)
    )


def _result(  # noqa: PLR0913, PLR0917 (what the tables are made of)
    rows: pd.DataFrame,
    shown: int,
    by_step: pd.DataFrame,
    consist: pd.DataFrame,
    ranks: pd.DataFrame,
    found_patterns: pd.DataFrame,
    checks: Sequence[Trust],
    found: Periods,
    config: Config,
) -> Result:
    counts = [str(name) for name in by_step if str(name).endswith("_ns")]
    by_step = by_step.astype(dict.fromkeys(counts, np.int64))
    of_shown = rows[rows["rank"] == shown]
    trusted = pd.DataFrame(
        [asdict(check) | {"silences": " ".join(check.silences)} for check in checks]
    )
    note = f"Of rank {shown}, whose causes the verdict tells, and of all others."
    return Result(
        metrics=_metrics(of_shown, by_step[by_step["rank"] == shown]),
        tables={
            "causes": table(rows, title="Causes of the step time of each rank", note=note),
            "ranks": table(ranks, title="Step time of each rank"),
            "by_step": table(by_step, title="Causes of every step", limit=config.max_rows),
            "parts": table(consist, title="Modules, operators, lines and kernels of each cause"),
            **_if_any("matches", found_patterns, "Patterns found"),
            "trust": table(trusted, title="Checks of the recording"),
        },
        charts=(
            Chart(
                kind="stacked_bar",
                title="Causes of every step",
                table="by_step",
                x="step",
                y=tuple(name for name in counts if name != "step_time_ns"),
                choose="rank",
            ),
        ),
        abstentions=_abstentions(found.problem),
    )


def _if_any(key: str, rows: pd.DataFrame, title: str) -> dict[str, Table]:
    return {key: table(rows, title=title)} if len(rows) else {}


def _abstentions(problem: str) -> tuple[Abstention, ...]:
    remedy = "mark steps with `profkit.step()` or `prof.step()`"
    return (Abstention(what=SINGLE_STEPS, reason=f"{problem}: {remedy}"),) if problem else ()


def _metrics(rows: pd.DataFrame, by_step: pd.DataFrame) -> dict[str, Metric]:
    """Return the step time and the causes of the two upper levels, in ms per step."""
    times = by_step.groupby("repeat", observed=True)["step_time_ns"].mean() / _MS
    by_repeat = zip(times.index.tolist(), times.tolist(), strict=True)
    step = Metric(
        value=float(by_step["step_time_ns"].mean()) / _MS,
        unit="ms",
        title="Step time that the causes sum to, as traced",
        better="lower",
        by_repeat=dict(by_repeat),
    )
    upper = rows[rows["id"].str.count(r"\.") < 2]  # noqa: PLR2004
    causes = {
        cause.replace(".", "_") + "_ms": Metric(
            value=time, unit="ms", title=f"{title}, per step", better="lower"
        )
        for cause, title, time in zip(
            upper["id"].tolist(),
            upper["title"].tolist(),
            upper["ms_per_step"].tolist(),
            strict=True,
        )
    }
    return {"step_ms": step} | causes
