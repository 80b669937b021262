"""Waterfall: the difference of the step time of two runs as the sum of that of its causes.

Made of two results of the analysis ``causes``, of one rank each: their tables ``parts`` divide all
of the step, so the bars sum to the difference, whatever differs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from profkit.analyze.division import gpu, names
from profkit.analyze.division.cpu_threads import BLOCKED, START_UP
from profkit.analyze.shared.paired import bounds
from profkit.core.result import Interval, Result
from profkit.tables.tree_paths import SEPARATOR

OVERHEAD = "profiler_overhead"
OTHER = "other"
_CONFIDENCE = 0.95
_LEVELS = ["cause", "operator", "kernel"]
_SIDES = ("before", "after")
_SMALL = 0.02
_EXPLAINS = 0.6
_MOST = 8
_LINE = re.compile(r"\(\d+\)")
_WAITING = f"{gpu.EXPOSED}.waiting"

ByRepeat = Mapping[int, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """What one cause, or one operator, line or kernel of it, adds to the difference."""

    id: str
    """`Cause.id` of the cause, followed by what it consists of."""

    title: str
    before_ms: float
    after_ms: float
    """Per step."""

    difference_ms: float
    change: Literal["", "new", "removed"] = ""
    """Whether only one of the two runs has it."""

    interval: Interval | None = None
    """Of the difference, over the pairs of repeats; None where there are not two."""

    by_pair: tuple[float, ...] = ()
    """The difference in each pair of repeats."""

    module: str = ""
    """Module with most of the difference; empty if none was recorded."""

    parts: tuple["Bar", ...] = ()
    """What it is the sum of, the largest difference first; empty if nothing is known below it."""

    @property
    def is_noise(self) -> bool:
        """Whether the repeats do not tell the difference from none."""
        return self.interval is not None and self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True, kw_only=True, slots=True)
class Waterfall:
    """Bars from the step time of one run to that of another, which sum to the difference."""

    before_ms: float
    after_ms: float
    """Step time: without a profiler where both runs were timed so, as traced otherwise."""

    basis: Literal["unprofiled", "traced"]
    """Which of these. Causes are those of traced steps: a bar of its own leads to the other."""

    rank_before: int
    rank_after: int
    """Rank whose causes these are: the one that others wait for in the slower run."""

    pairs: int
    """Repeats that both runs have, over which the intervals are; 0 if they have none in common."""

    work: float
    """How often the work of the first recording is in the second, by calls of the same operators
    and kernels; its times are divided by that. 1 where both have marked steps."""

    bars: tuple[Bar, ...]
    """The largest difference first, but small ones together last, as ``other``."""

    @property
    def difference_ms(self) -> float:
        """What all bars sum to."""
        return self.after_ms - self.before_ms

    def largest(self, count: int) -> tuple[Bar, ...]:
        """Return the bars with the largest difference, of those that are not gathered."""
        return tuple(bar for bar in self.bars if bar.id != OTHER)[:count]


def waterfall(
    before: Result, after: Result, unprofiled_ms: tuple[ByRepeat, ByRepeat] | None = None
) -> Waterfall | None:
    """Return the waterfall between two results of ``causes``; None if one has divided no time.

    `unprofiled_ms` are the times of a step without a profiler, of each run by repeat.
    """
    both = [_rows(result) for result in (before, after)]
    if any(rows.empty for rows in both):
        return None
    work = 1.0 if _has_steps(before) and _has_steps(after) else _work(both)
    both[1] = both[1].assign(ms_per_step=both[1]["ms_per_step"] / work)
    ranks = _ranks(both)
    both = [rows[(rows["rank"] == rank).to_numpy()] for rows, rank in zip(both, ranks, strict=True)]
    both = _with_operators(both)
    both[0] = _with_lines_of(both[1], both[0])
    repeats, pairs = _repeats(both)
    times = [_times(rows, own) for rows, own in zip(both, repeats, strict=True)]
    is_timed = unprofiled_ms is not None and all(
        set(own) <= set(known) for own, known in zip(repeats, unprofiled_ms, strict=True)
    )
    if unprofiled_ms and is_timed:
        for side, known, own in zip(times, unprofiled_ms, repeats, strict=True):
            side.loc[OVERHEAD, "", ""] = [known[repeat] for repeat in own] - side.sum()
    joined = pd.concat(times, axis=1, keys=_SIDES).fillna(0.0)
    modules = _modules(both)
    whole = _bar("", joined, pairs)
    causes = [
        _of_cause(str(cause), rows, pairs, modules)
        for cause, rows in joined.groupby(level=0, sort=False)
    ]
    return Waterfall(
        before_ms=whole.before_ms,
        after_ms=whole.after_ms,
        basis="unprofiled" if is_timed else "traced",
        rank_before=ranks[0],
        rank_after=ranks[1],
        pairs=pairs,
        work=work,
        bars=_gathered([shown for bar in causes for shown in _cut(bar)], whole),
    )


def _rows(result: Result) -> pd.DataFrame:
    """Return the rows of the table ``parts``."""
    parts = result.tables.get("parts")
    return pd.DataFrame(parts.rows, columns=list(parts.columns)) if parts else pd.DataFrame()


def _has_steps(causes: Result) -> bool:
    """Say whether times are those of marked steps, and not of all that was recorded."""
    steps = causes.tables.get("by_step")
    return steps is None or any(row[steps.columns.index("step")] != -1 for row in steps.rows)


def _work(both: Sequence[pd.DataFrame]) -> float:
    """Return how many calls the second recording has for one of the first, of the same work.

    The median over operators and kernels that both have, each counting as much as it takes. 1 if
    they have none in common.
    """
    sums = [
        rows[(rows["calls_per_step"] > 0).to_numpy()]
        .groupby(["operator", "kernel"])[["calls_per_step", "ms_per_step"]]
        .sum()
        / len(rows[["rank", "repeat"]].drop_duplicates())
        for rows in both
    ]
    joined = pd.concat(sums, axis=1, join="inner", keys=_SIDES)
    if joined.empty:
        return 1.0
    calls, ms = (joined.xs(name, axis=1, level=1) for name in ("calls_per_step", "ms_per_step"))
    ratios = (calls["after"] / calls["before"]).sort_values()
    weights = ms["before"].loc[ratios.index].cumsum()
    return float(ratios[(weights >= weights.iloc[-1] / 2).to_numpy()].iloc[0])


def _ranks(both: Sequence[pd.DataFrame]) -> tuple[int, int]:
    """Return the rank of each run whose causes decide: in the slower run it keeps others waiting.

    Where none waits for long it is the one with the longest step, of equals the lowest. It is the
    same rank of both runs, if both have it.
    """
    lengths = [_of_ranks(rows, rows) for rows in both]
    waiting = [rows[(rows["cause"] == _WAITING).to_numpy()] for rows in both]
    chosen = [
        _decisive(length, _of_ranks(rows, own).reindex(length.index).fillna(0.0))
        for length, rows, own in zip(lengths, both, waiting, strict=True)
    ]
    slower = int(lengths[1].max() > lengths[0].max())
    if chosen[slower] in lengths[1 - slower].index:
        return chosen[slower], chosen[slower]
    return chosen[0], chosen[1]


def _of_ranks(rows: pd.DataFrame, counted: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean time over the repeats of each rank, in ms per step, of the `counted` rows."""
    sums: pd.Series[float] = counted.groupby("rank")["ms_per_step"].sum()
    return sums / rows.groupby("rank")["repeat"].nunique()


def _decisive(lengths: "pd.Series[float]", waits: "pd.Series[float]") -> int:
    near = _SMALL * float(lengths.max())
    busy = lengths[(waits <= waits.min() + near).to_numpy()]
    return min(int(str(rank)) for rank in busy.index[(busy >= busy.max() - near).to_numpy()])


def _with_operators(both: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the rows, kernels whose launch was not recorded with the operator they else have."""
    launched = pd.concat([rows[(rows["operator"] != rows["kernel"]).to_numpy()] for rows in both])
    of_kernel = launched.groupby("kernel")["operator"].agg(set)
    known = {kernel: min(names) for kernel, names in of_kernel.items() if len(names) == 1}
    return [
        rows.assign(
            operator=[
                known.get(kernel, operator) if kernel and operator == kernel else operator
                for operator, kernel in zip(rows["operator"], rows["kernel"], strict=True)
            ]
        )
        for rows in both
    ]


def _with_lines_of(reference: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with functions called as in `reference` if only their line has moved."""
    known = set(reference["operator"])
    moved = {_LINE.sub("", name): name for name in sorted(known) if _LINE.search(name)}
    names = {
        name: moved.get(_LINE.sub("", name), name)
        for name in set(rows["operator"]) - known
        if _LINE.search(name)
    }
    return rows.assign(operator=[names.get(name, name) for name in rows["operator"]])


def _repeats(both: Sequence[pd.DataFrame]) -> tuple[list[list[int]], int]:
    """Return the repeats of each run that count, and how many pairs they make."""
    own = [sorted(set(rows["repeat"].tolist())) for rows in both]
    common = [repeat for repeat in own[0] if repeat in own[1]]
    return ([common, common] if common else own), len(common)


def _times(rows: pd.DataFrame, repeats: Sequence[int]) -> pd.DataFrame:
    """Return ms per step by cause, operator or line, and kernel; a column for each repeat."""
    sums = rows.pivot_table("ms_per_step", _LEVELS, "repeat", aggfunc="sum", fill_value=0.0)
    return sums[list(repeats)]


def _modules(both: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return by cause and operator how much the time in each module with a name has changed."""
    signed = [
        rows.assign(ms=sign * rows["ms_per_step"] / rows["repeat"].nunique())
        for sign, rows in zip((-1, 1), both, strict=True)
    ]
    rows = pd.concat(signed)
    rows = rows[(rows["module"] != "").to_numpy()]
    return rows.groupby(["cause", "operator", "module"])["ms"].sum().reset_index()


def _of_cause(cause: str, rows: pd.DataFrame, pairs: int, modules: pd.DataFrame) -> Bar:
    modules = modules[(modules["cause"] == cause).to_numpy()]
    labels = {str(label): below for label, below in rows.groupby(level=1, sort=False)}
    parts = [
        _bar(
            f"{cause}.{_word(label)}",
            below,
            pairs,
            title=f"{_title(cause)}: {label or 'other'}",
            modules=modules[(modules["operator"] == label).to_numpy()],
            parts=_kernels(f"{cause}.{_word(label)}", label, below, pairs),
        )
        for label, below in labels.items()
    ]
    has_parts = set(labels) != {""}
    parts = _ordered(parts) if has_parts else []
    return _bar(cause, rows, pairs, title=_title(cause), modules=modules, parts=parts)


def _kernels(above: str, label: str, rows: pd.DataFrame, pairs: int) -> list[Bar]:
    kernels = {str(name): below for name, below in rows.groupby(level=2, sort=False)}
    if not set(kernels) - {"", label}:
        return []
    return _ordered(
        _bar(f"{above}.{_word(name)}", below, pairs, title=name or OTHER)
        for name, below in kernels.items()
    )


def _word(label: str) -> str:
    return label.replace(".", "_") or OTHER


def _title(cause: str) -> str:
    if cause == OVERHEAD:
        return "Profiler overhead, which the causes contain"
    top, *below = cause.split(".")
    if {BLOCKED, START_UP} & set(below[:-1]) or top == "exposed_copies":
        return f"{names.title('.'.join(cause.split('.')[:-1]))}: {names.title(cause)}"
    return names.title(cause)


def _bar(  # noqa: PLR0913 - what a bar consists of
    name: str,
    rows: pd.DataFrame,
    pairs: int,
    *,
    title: str = "",
    modules: pd.DataFrame | None = None,
    parts: Iterable[Bar] = (),
) -> Bar:
    before, after = (rows[side].to_numpy(np.float64).sum(axis=0) for side in _SIDES)
    by_pair = tuple((after - before).tolist()) if pairs else ()
    module = ""
    if modules is not None and len(modules):
        sums = modules.groupby("module")["ms"].sum().abs()
        module = str(sums.idxmax()).replace(SEPARATOR, " > ")
    return Bar(
        id=name,
        title=title,
        before_ms=float(before.mean()),
        after_ms=float(after.mean()),
        difference_ms=float(after.mean() - before.mean()),
        change="" if before.any() and after.any() else "new" if after.any() else "removed",
        interval=_interval(by_pair),
        by_pair=by_pair,
        module=module,
        parts=tuple(parts),
    )


def _interval(by_pair: Sequence[float]) -> Interval | None:
    if len(by_pair) <= 1:
        return None
    low, high = bounds(np.array(by_pair), _CONFIDENCE)
    return Interval(low=float(low), high=float(high), confidence=_CONFIDENCE)


def _ordered(bars: Iterable[Bar]) -> list[Bar]:
    return sorted(bars, key=lambda bar: -abs(bar.difference_ms))


def _cut(bar: Bar) -> Iterator[Bar]:
    """Yield the parts of a bar where one of them explains it, or they cancel; else the bar."""
    largest = max((abs(part.difference_ms) for part in bar.parts), default=0.0)
    if largest > _EXPLAINS * abs(bar.difference_ms):
        yield from bar.parts
    else:
        yield bar


def _gathered(bars: Iterable[Bar], whole: Bar) -> tuple[Bar, ...]:
    """Return the bars that matter, the largest first, and then all others together."""
    ordered = _ordered(bars)
    least = _SMALL * max(abs(whole.difference_ms), abs(ordered[0].difference_ms))
    kept = [bar for bar in ordered[:_MOST] if abs(bar.difference_ms) > least or bar.id == OVERHEAD]
    small = [bar for bar in ordered if bar not in kept]
    if not small:
        return tuple(kept)
    before, after = (sum(bar.before_ms for bar in small), sum(bar.after_ms for bar in small))
    by_pair = tuple(map(sum, zip(*(bar.by_pair for bar in small), strict=True)))
    other = Bar(
        id=OTHER,
        title=f"other ({len(small)})",
        before_ms=before,
        after_ms=after,
        difference_ms=after - before,
        interval=_interval(by_pair),
        by_pair=by_pair,
        parts=tuple(small),
    )
    return (*kept, other)
