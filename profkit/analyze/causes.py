"""Causes: the time of a step from its start to the next, divided once among what it is spent on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import Behaviour, Columns, OfTool, Recordings, analysis
from profkit.analyze.division import divided_ranks, gpu, trust
from profkit.analyze.division.details import IN_OPERATORS
from profkit.analyze.division.kept_calls import kept_calls
from profkit.analyze.division.pattern_matches import INPUTS, matches
from profkit.analyze.division.periods import SINGLE_STEPS, Periods, periods, watched
from profkit.analyze.division.profiler_overhead import (
    matches_without_overhead,
    of_tax,
    without_overhead,
)
from profkit.analyze.division.rank_causes import (
    Divided,
    RankCauses,
    by_step_of,
    one_by_one,
    tree_of,
    with_shown,
)
from profkit.analyze.division.tensor_sizes import sizes_vary
from profkit.analyze.division.unrecorded_gpu import known_anyway, unrecorded_gpu, why_nothing
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.late_hosts import is_one_host
from profkit.analyze.shared.representative_ranks import left_out, representative
from profkit.analyze.shared.step_spans import operator_spans
from profkit.analyze.shared.step_times import UNPROFILED
from profkit.analyze.shared.step_windows import extents
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.core.verdict import Trust
from profkit.tables import schema
from profkit.tables.rank_clocks import matched_collectives

_MS = 1e6
_SAMPLER = "torch_profiler"
_PARTS = "modules, operators and lines"
_AT_WORK = ("gpu_computing", "cpu_operators", "exposed_communication", "exposed_copies")
_GPU_WAITS = "gpu_idle.python"
_IN_GRAPH = f"{gpu.IDLE}.{gpu.IN_GRAPH}"
_ON_CPU = (_GPU_WAITS, "cpu_operators", "python")
_SAMPLED = (*INPUTS, "processes", "worker_samples", "sampled_steps")
_SMALL_ROWS = 300_000
_OPS = Columns(
    "rank repeat op parent tid name kind start_ns end_ns step input_shapes input_types forward"
    " module phase stack sequence",
    narrow="op parent forward sequence",
)
_KERNELS = Columns(
    "rank repeat device stream name kind start_ns end_ns correlation op step size_bytes copy_kind"
    " grid block graph collective module phase",
    narrow="correlation op",
)
_CALLS = Columns(
    "rank repeat tid name start_ns end_ns correlation op step", narrow="correlation op"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/causes.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_rows: int = 20_000
    """Rows kept of the table of single steps, which the map of ranks and steps is drawn from."""

    most_ranks: PositiveInt = 64
    """Ranks whose causes are divided among modules, operators, lines and kernels; more take time
    and memory. Of more ranks half are those whose steps differ most; that of the verdict, and the
    one it waits for, are among them."""


@analysis(title="Causes")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    runtime_calls: Annotated[LargeTable, _CALLS],
    annotations: pd.DataFrame,
    python_calls: LargeTable,
    collectives: pd.DataFrame,
    devices: pd.DataFrame,
    hosts: pd.DataFrame,
    observer_tax: Result | None,
    samples: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_samples")],
    threads: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_threads")],
    pauses: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="python_pauses")],
    processes: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="processes")],
    sampled_steps: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="sampled_steps")],
    padded_inputs: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="padded_inputs")],
    given_labels: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="given_labels")],
    repeated_inputs: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="repeated_inputs")],
    worker_samples: Annotated[pd.DataFrame | None, OfTool(tool=_SAMPLER, table="worker_samples")],
    recordings: Recordings,
    hardware: Hardware,
    behaviour: Behaviour,
    config: Config,
) -> Result:
    """Where does the time of a steady step go, and what can be gained at most?

    Each instant until the next step begins has one cause, so causes sum to the step. GPU computing
    comes before what it hides; idle time, and communication that mostly covers late launches, goes
    to what the thread did that launches next. Without a GPU, operators come before communication.
    """
    recorded = _recorded(cpu_ops, kernels, runtime_calls)
    on_cpu = operator_spans(cpu_ops)
    on_gpu, launched = divided_ranks.placed_spans(kernels, runtime_calls)
    if on_cpu.empty and on_gpu.empty:
        return Result.abstain("causes", why_nothing(kernels, runtime_calls))
    marked = watched(steps, on_cpu, on_gpu, collectives)
    found = periods(marked, on_cpu, on_gpu, config.skip_first, sampled_steps)
    if found.rows.empty:
        return Result.abstain("causes", "what was recorded took no time")
    matched, python = matched_collectives(collectives), kept_calls(python_calls, on_gpu)
    sampled = divided_ranks.sampled_tables(samples, threads, pauses, sampled_steps)
    tables: dict[str, Any] = {"ops": cpu_ops, "kernels": kernels, "calls": runtime_calls, **sampled}
    tables |= {"python": python, **divided_ranks.of_collectives(collectives, matched)}
    ranks, shown, traced = _divided(found, tables, config, [len(python), *recorded.values()])
    seen = trust.Seen(
        periods=found,
        matched=matched,
        collectives=collectives,
        recordings=recordings,
        **of_tax(observer_tax, recordings),
        **_of_ranks(ranks, traced, shown, hosts, cpu_ops),
        **_rates(python_calls, cpu_ops, on_cpu, shown, recordings),
        **_counted(steps, recorded, launched, recordings, len(python) + len(sampled["samples"])),
        unrecorded_gpu=unrecorded_gpu(cpu_ops, kernels, runtime_calls, devices),
    )
    rows = traced if found.problem else _unslowed(traced, seen.slowdown, observer_tax)
    known = {"hardware": hardware, "behaviour": behaviour, "steps": steps, "devices": devices}
    inputs = padded_inputs, given_labels, repeated_inputs
    known |= zip(_SAMPLED, (*inputs, processes, worker_samples, sampled_steps), strict=True)
    known |= {"annotations": annotations, "collectives": collectives}
    matching = _matches(shown, traced, rows, known, seen)
    return _result(rows, shown, ranks, matching, trust.checks(seen), found.problem, config)


def _of_ranks(
    ranks: Sequence[RankCauses],
    traced: pd.DataFrame,
    shown: Divided,
    hosts: pd.DataFrame,
    ops: LargeTable,
) -> dict[str, Any]:
    """Return how the ranks ran, and how the one that is `shown` spent its time."""
    mine = shown.rank.where[0]
    rows = traced[traced["rank"] == mine]
    return {
        "queued": max(one.queued for one in ranks),
        "sizes_vary": partial(sizes_vary, ops, shown.rank.where),
        "working": _working(rows),
        "missing_in_graphs": float(rows.loc[rows["id"] == _IN_GRAPH, "share"].sum()),
        "on_cpu": float(rows.loc[rows["id"].isin(_ON_CPU), "share"].sum()),
        "known_anyway": known_anyway(shown.rank, shown.time),
        "is_one_host": is_one_host(hosts, traced["rank"]),
    }


def _rates(
    python_calls: LargeTable,
    cpu_ops: LargeTable,
    on_cpu: pd.DataFrame,
    shown: Divided,
    recordings: Recordings,
) -> dict[str, Any]:
    """Return how many calls and ranges of the rank that is `shown` were recorded per ms."""
    rank = shown.rank.where[0]
    recorded = extents(on_cpu[(on_cpu["rank"] == rank).to_numpy()])
    lasted = max((recorded["last"] - recorded["first"]).sum(), 1)
    calls, ranges = (
        float(sum(group.get(rank, 0) for group in table.groups()) * _MS / lasted)
        for table in (python_calls, cpu_ops)
    )
    return {"calls_per_ms": calls, "ranges_per_ms": ranges if "nsys" in recordings else 0.0}


def _working(causes: pd.DataFrame) -> float:
    """Return the part of the time of one rank in which its GPU worked, or operators ran."""
    of_python = causes[(causes["id"] == _GPU_WAITS).to_numpy()]
    in_operators = [json.loads(text).get(IN_OPERATORS, 0.0) for text in of_python["evidence"]]
    beside_gpu = float((of_python["share"] * in_operators).sum())
    return float(causes.loc[causes["id"].isin(_AT_WORK), "share"].sum()) + beside_gpu


def _divided(
    found: Periods, tables: Mapping[str, Any], config: Config, sizes: Sequence[int]
) -> tuple[list[RankCauses], Divided, pd.DataFrame]:
    """Return the causes of each rank, all of the one that is shown, and the table of causes.

    Of small tables, by their `sizes`, the causes of every rank are kept until one is shown.
    """
    chosen = _with_parts(found, config.most_ranks)
    ranks = one_by_one(found, tables, chosen, keeps_all=sum(sizes) <= _SMALL_ROWS)
    ranks, shown = with_shown(ranks, found, tables)
    return ranks, shown, tree_of(ranks)


def _with_parts(found: Periods, most: int) -> list[int]:
    """Return the ranks whose parts are kept, at most `most`."""
    times = found.rows.assign(time_ns=found.rows["end_ns"] - found.rows["start_ns"])
    numbers = np.unique(found.rows["rank"].to_numpy(np.int64))
    return representative(times, numbers, most)


def _matches(
    one: Divided,
    traced: pd.DataFrame,
    rows: pd.DataFrame,
    known: Mapping[str, Any],
    seen: trust.Seen,
) -> pd.DataFrame:
    """Return what the patterns find in the first recording of the rank that is shown.

    `rows` are the causes that were `traced` without what the profiler adds to them.
    """
    known = {**known, **{name: schema.frame(name) for name in _SAMPLED if known[name] is None}}
    ranks = len(set(rows["rank"]))
    if seen.is_one_host:  # workers that a program starts itself know nothing of each other
        on_host = known["processes"]["ranks_on_host"].clip(lower=ranks)
        known["processes"] = known["processes"].assign(ranks_on_host=on_host)
    own, shown = (causes[causes["rank"] == one.rank.where[0]] for causes in (traced, rows))
    slowdown = seen.slowdown.value if seen.slowdown else 1.0
    found = matches(one.rank, one.time, own, known, ranks, slowdown)
    return matches_without_overhead(found, shown)


def _recorded(cpu_ops: LargeTable, kernels: LargeTable, calls: LargeTable) -> dict[str, int]:
    """Return how many rows of each table were recorded."""
    tables = {"cpu_ops": cpu_ops, "kernels": kernels, "calls": calls}
    return {
        name: sum(sum(group.values()) for group in table.groups()) for name, table in tables.items()
    }


def _counted(
    steps: pd.DataFrame,
    recorded: Mapping[str, int],
    launched: Mapping[str, int],
    recordings: Recordings,
    python: int,
) -> dict[str, Any]:
    """Return how much was recorded, and whether the CPU, its operators or Python are missing."""
    kernels, calls = launched["kernels"], recorded["calls"]
    return {
        "steps": steps["step"].nunique(),
        "kernels": kernels,
        "misplaced": launched["misplaced"],
        "unlaunched": launched["unlaunched"],
        "rows": recorded["cpu_ops"] + kernels + calls,
        "has_cpu": bool(recorded["cpu_ops"] or calls),
        "has_python": python > 0,
        "lacks_operators": not recorded["cpu_ops"] and _SAMPLER in recordings,
    }


def _unslowed(
    traced: pd.DataFrame, slowdown: Metric | None, observer_tax: Result | None
) -> pd.DataFrame:
    """Return the causes `without_overhead`, as they are where that was not measured."""
    if slowdown is None or observer_tax is None:
        return traced
    return without_overhead(traced, slowdown.value, observer_tax.metrics[UNPROFILED].value / _MS)


def _ranks(by_step: pd.DataFrame, known: Sequence[RankCauses], shown: int) -> pd.DataFrame:
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
    one: Divided,
    ranks: Sequence[RankCauses],
    found_patterns: pd.DataFrame,
    checks: Sequence[Trust],
    problem: str,
    config: Config,
) -> Result:
    shown = one.rank.where[0]
    by_step = _with_places(by_step_of(ranks))
    consist = pd.concat([part for one in ranks for part in one.parts], ignore_index=True)
    of_ranks = _ranks(by_step, ranks, shown)
    counts = [str(name) for name in by_step if str(name).endswith("_ns")]
    trusted = pd.DataFrame(
        [asdict(check) | {"silences": " ".join(check.silences)} for check in checks]
    )
    note = (
        f"Of rank {shown}, whose causes the verdict tells, and of all others. Those that are part "
        "of no other sum to the step."
    )
    tree = _with_wholes(rows)
    return Result(
        metrics=_metrics(rows[rows["rank"] == shown], by_step[by_step["rank"] == shown]),
        tables={
            "causes": table(tree, title="Causes of the step time of each rank", note=note),
            "ranks": table(of_ranks, title="Step time of each rank"),
            "by_step": table(by_step, title="Causes of every step", limit=config.max_rows),
            "parts": table(consist, title="Modules, operators, lines and kernels of each cause"),
            **_if_any("matches", found_patterns, "Patterns found", _COVERED),
            "trust": table(trusted, title="Checks of the recording"),
        },
        charts=(
            Chart(
                kind="stacked_bar",
                title="Causes of every step",
                table="by_step",
                x=_PLACE if _PLACE in by_step else "step",
                y=tuple(name for name in counts if name != "step_time_ns"),
                choose="rank",
            ),
        ),
        abstentions=_abstentions(problem, ranks),
    )


def _with_wholes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the causes of each rank with the title of the one that each is part of, or ""."""
    titles = dict(zip(zip(rows["rank"], rows["id"], strict=True), rows["title"], strict=True))
    above = [cause.rpartition(".")[0] for cause in rows["id"]]
    wholes = [titles.get(one, "") for one in zip(rows["rank"], above, strict=True)]
    made = rows.copy()
    made.insert(list(rows).index("title") + 1, "part_of", wholes)
    return made


def _with_places(by_step: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a name of each step, where steps of several repeats have one number."""
    if by_step["repeat"].min() == by_step["repeat"].max():
        return by_step
    step, repeat = (by_step[name].astype(str) for name in ("step", "repeat"))
    return by_step.assign(**{_PLACE: step + ", repeat " + repeat})


_PLACE = "step_and_repeat"
_COVERED = (
    "Covered is the time that a pattern is about; patterns may share it. The gains of the verdict "
    "count it once."
)


def _if_any(key: str, rows: pd.DataFrame, title: str, note: str) -> dict[str, Table]:
    return {key: table(rows, title=title, note=note)} if len(rows) else {}


def _abstentions(problem: str, ranks: Sequence[RankCauses]) -> tuple[Abstention, ...]:
    in_full = left_out(_PARTS, [one.number for one in ranks if one.parts], len(ranks))
    if not problem:
        return in_full
    remedy = "mark steps with `profkit.step()` or `prof.step()`"
    reason = f"{problem[0].lower()}{problem[1:]}: {remedy}"
    return (Abstention(what=SINGLE_STEPS, reason=reason), *in_full)


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
