"""Sequences: kernels that follow one another again and again, and what fusing some could save."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from profkit.analyze._repeated_sequences import Repeat, distinct, maximal_repeats
from profkit.analyze.base import NO_GPU_WORK, Columns, analysis
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.large_table import LargeTable, ranks_in_batches
from profkit.analyze.shared.representative_ranks import by_gpu_time, fitting, left_out
from profkit.analyze.shared.step_spans import spans
from profkit.analyze.shared.step_windows import WHERE
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.tables.kernel_names import contains_any

_TRACK = [*WHERE, "device", "stream"]
_ARROW = " → "
_NAME_LENGTH = 100
_MOST_NAMES = 40
_FREQUENT_NOTE = (
    "Of sequences that contain one another, the one that covers most. Counts leave out occurrences "
    "that overlap."
)
_FUSION_NOTE = (
    "The saving is the time of all but the longest of a run; gaps between them would come on top."
)
_OPS = Columns("rank repeat op parent name start_ns end_ns")
_KERNELS = Columns(
    "rank repeat device stream name kind start_ns end_ns op step phase module", narrow="op"
)
_Launched = dict[tuple[str, bytes], dict[str, str | int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/sequences.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_length: int = 64
    """Longest sequence looked for, in kernels."""

    min_count: Annotated[int, Field(ge=2)] = 3
    """Occurrences from which a sequence counts as frequent."""

    short_ns: int = 50_000
    """Elementwise kernels up to this long are candidates for fusion, in ns."""

    elementwise: tuple[str, ...] = (
        "elementwise",
        "CUDAFunctor_add",
        "fused_dropout",
        "triton_poi_",
    )
    """Parts of names of elementwise kernels."""

    operators: tuple[str, ...] = ("aten::*",)
    """Patterns of operators whose kernel sequences are compared; the outermost that fits counts."""

    most_kernels: PositiveInt = 1_000_000
    """Kernels, copies and sets of all ranks; of more, those of ranks that stand for all."""

    max_rows: int = 50
    """Rows kept of each table."""


@analysis(title="Kernel sequences")
def analyze(
    kernels: Annotated[LargeTable, _KERNELS],
    cpu_ops: Annotated[LargeTable, _OPS],
    config: Config,
) -> Result:
    """What repeats on each stream, and which short elementwise kernels could be one?

    A frequent sequence is a maximal repeat: no longer one occurs as often. Its time is that of all
    that its occurrences cover; shares are of the sum of the durations of all GPU work. The
    saving of fusing a run assumes that the fused kernel takes as long as the longest of the run,
    as each reads and writes about the same tensors from memory, and that no gap is left between:
    it is an upper bound where they work on different tensors.
    """
    most = fitting(kernels, config.most_kernels)
    ranks, count = by_gpu_time(spans(kernels, WHERE), most)
    chosen = kernels.only(ranks)
    rows = chosen.where(lambda work: (work["step"] >= config.skip_first).to_numpy())
    rows = rows if len(rows) else chosen.whole()
    if rows.empty:
        return Result.abstain("kernel sequences", NO_GPU_WORK)
    rows = rows.sort_values([*_TRACK, "start_ns"], kind="stable", ignore_index=True)
    took = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
    name = np.asarray(rows["name"].cat.codes, dtype=np.int64)
    track = np.asarray(rows.groupby(_TRACK, observed=True).ngroup(), dtype=np.int64)
    repeats = maximal_repeats(
        name, track, took, max_length=config.max_length, min_count=config.min_count
    )
    repeats = distinct(repeats, name, config.max_rows)
    total = max(int(took.sum()), 1)
    runs = _elementwise_runs(rows, took, track, config)
    fused = _fusible(rows, took, runs, total)
    return Result(
        metrics=_metrics(fused),
        tables=_tables(
            _frequent(repeats, rows, total), fused, _launched(cpu_ops, rows, took, config), config
        ),
        charts=_charts(fused),
        abstentions=(
            *_abstentions(repeats, config),
            *left_out("kernel sequences", ranks, count, "most_kernels"),
        ),
    )


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"


def _joined(names: list[str]) -> str:
    """Return a sequence as text: equal neighbours are counted, and so is the end of a long one."""
    runs = [(name, len(list(same))) for name, same in groupby(map(_short, names))]
    shown = [f"{count} x {name}" if count > 1 else name for name, count in runs]
    more = len(shown) - _MOST_NAMES
    return _ARROW.join(shown[:_MOST_NAMES] + ([f"({more} more)"] if more > 0 else []))


def _most_common(texts: "pd.Series[str]") -> str:
    counts = texts.astype(object).value_counts()
    return str(counts.index[0]) if len(counts) else ""


def _frequent(repeats: list[Repeat], rows: pd.DataFrame, total: int) -> pd.DataFrame:
    """Return one row per frequent sequence, with its most frequent phase and module."""
    names = rows["name"].astype(object)
    found = []
    for repeat in repeats:
        first = int(repeat.starts[0])
        found.append(
            {
                "sequence": _joined(names.iloc[first : first + repeat.length].tolist()),
                "kernels": repeat.length,
                "count": len(repeat.starts),
                "time_ns": repeat.covered,
                "time_share": repeat.covered / total,
                "phase": _most_common(rows["phase"].iloc[repeat.starts]),
                "module": _most_common(rows["module"].iloc[repeat.starts]),
            }
        )
    return pd.DataFrame(found)


def _elementwise_runs(
    rows: pd.DataFrame, took: NDArray[np.int64], track: NDArray[np.int64], config: Config
) -> list[NDArray[np.int64]]:
    """Return the runs of two and more short elementwise kernels that follow one another."""
    names = rows["name"].cat.categories
    fits = np.array([contains_any(name, config.elementwise) for name in names], dtype=np.bool_)
    short = fits[rows["name"].cat.codes.to_numpy()] & (took <= config.short_ns)
    short &= (rows["kind"] == "compute").to_numpy()
    breaks = np.flatnonzero((short[1:] != short[:-1]) | (track[1:] != track[:-1])) + 1
    begin, end = np.append(0, breaks), np.append(breaks, len(rows))
    kept = (end - begin > 1) & short[begin]
    return list(map(np.arange, begin[kept], end[kept]))


def _fusible(
    rows: pd.DataFrame, took: NDArray[np.int64], runs: list[NDArray[np.int64]], total: int
) -> pd.DataFrame:
    """Return one row per distinct run, with what fusing all of its kind could save."""
    code = rows["name"].cat.codes.to_numpy()
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    alike: dict[bytes, list[NDArray[np.int64]]] = defaultdict(list)
    for run in runs:
        alike[code[run].tobytes()].append(run)
    names = rows["name"].astype(object)
    found = []
    for same in alike.values():
        firsts = [int(run[0]) for run in same]
        saving = sum(int(took[run].sum() - took[run].max()) for run in same)
        gaps = sum(int((start[run[1:]] - end[run[:-1]]).clip(min=0).sum()) for run in same)
        found.append(
            {
                "sequence": _joined(names.iloc[same[0]].tolist()),
                "kernels": len(same[0]),
                "count": len(same),
                "time_ns": sum(int(took[run].sum()) for run in same),
                "saving_ns": saving,
                "saving_share": saving / total,
                "gaps_ns": gaps,
                "phase": _most_common(rows["phase"].iloc[firsts]),
                "module": _most_common(rows["module"].iloc[firsts]),
            }
        )
    result = pd.DataFrame(found)
    return result.sort_values("saving_ns", ascending=False, ignore_index=True) if found else result


def _launched(
    cpu_ops: LargeTable, rows: pd.DataFrame, took: NDArray[np.int64], config: Config
) -> pd.DataFrame:
    """Return the sequences of two and more kernels that the outermost matching operators launch."""
    found: _Launched = {}
    ranks = set(rows["rank"].tolist())
    for batch in ranks_in_batches([cpu_ops.groups()]):
        if kept := batch & ranks:
            own = rows["rank"].isin(kept).to_numpy()
            _add_launched(found, cpu_ops.of_ranks(kept), rows[own], took[own], config)
    order = ["count", "time_ns"]
    result = pd.DataFrame(list(found.values()))
    return result.sort_values(order, ascending=False, ignore_index=True) if found else result


def _add_launched(
    found: "_Launched",
    cpu_ops: pd.DataFrame,
    rows: pd.DataFrame,
    took: NDArray[np.int64],
    config: Config,
) -> None:
    """Add the sequences that operators of some ranks launch, by operator and kernels."""
    top = _outermost(cpu_ops, rows, config)
    known = np.flatnonzero(top >= 0)
    known = known[np.lexsort((rows["start_ns"].to_numpy(np.int64)[known], top[known]))]
    breaks = np.flatnonzero(np.diff(top[known])) + 1
    begin, end = np.append(0, breaks), np.append(breaks, len(known))
    several = end - begin > 1
    length = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy(np.int64)
    operator = cpu_ops["name"].astype(object).to_numpy()
    code, names = rows["name"].cat.codes.to_numpy(), rows["name"].astype(object)
    for first, last in zip(begin[several], end[several], strict=True):
        work = known[first:last]
        op = int(top[work[0]])
        key = (str(operator[op]), code[work].tobytes())
        if (row := found.get(key)) is None:
            row = found[key] = {
                "operator": str(operator[op]),
                "sequence": _joined(names.iloc[work].tolist()),
                "kernels": len(work),
                **dict.fromkeys(("count", "time_ns", "cpu_ns"), 0),
            }
        for name, more in (("count", 1), ("time_ns", took[work].sum()), ("cpu_ns", length[op])):
            row[name] = int(row[name]) + int(more)


def _outermost(cpu_ops: pd.DataFrame, rows: pd.DataFrame, config: Config) -> calltree.Rows:
    """Return for each kernel the outermost operator above it that fits the patterns."""
    fits = matching(cpu_ops["name"], config.operators)
    parent = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    around = calltree.nearest(calltree.rows_of(cpu_ops, rows), parent, ~fits)
    top = around
    while (around >= 0).any():
        top = np.where(around >= 0, around, top)
        above = np.where(around >= 0, np.append(parent, -1)[around], -1)
        around = calltree.nearest(above, parent, ~fits)
    return top


def _metrics(fused: pd.DataFrame) -> dict[str, Metric]:
    share = float(fused["saving_share"].sum()) if len(fused) else 0.0
    title = "GPU time that fusing elementwise kernels could save at most"
    return {"fusion_saving_share": Metric(value=share, unit="share", title=title, better="lower")}


def _tables(
    frequent: pd.DataFrame, fused: pd.DataFrame, launched: pd.DataFrame, config: Config
) -> dict[str, Table]:
    shown = {
        "frequent": (
            frequent,
            "Frequent sequences on a stream, those that cover most time first",
            _FREQUENT_NOTE,
        ),
        "fusion": (
            fused,
            "Runs of short elementwise kernels, the largest saving first",
            _FUSION_NOTE,
        ),
        "by_operator": (
            launched,
            "Sequences of kernels that one operator launches",
            "Time is that of the kernels, CPU time that of the operator's calls.",
        ),
    }
    return {
        key: table(rows, title=title, note=note, limit=config.max_rows)
        for key, (rows, title, note) in shown.items()
        if len(rows)
    }


def _charts(fused: pd.DataFrame) -> tuple[Chart, ...]:
    if fused.empty:
        return ()
    return (
        Chart(
            kind="bar",
            title="Time that fusing could save at most, by run",
            table="fusion",
            x="sequence",
            y=("saving_ns",),
            horizontal=True,
        ),
    )


def _abstentions(repeats: list[Repeat], config: Config) -> tuple[Abstention, ...]:
    if repeats:
        return ()
    reason = f"no two kernels follow one another {config.min_count} times: record more steps"
    return (Abstention(what="frequent sequences", reason=reason),)
