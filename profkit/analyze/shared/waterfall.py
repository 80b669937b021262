"""Waterfall: the difference of the step time of two runs as the sum of that of its causes.

Made of two results of the analysis ``causes``, of one rank each: their tables ``parts`` divide all
of the step, so the bars sum to the difference, whatever differs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from profkit.analyze.division import gpu, names
from profkit.analyze.division.cpu_threads import BLOCKED, START_UP
from profkit.analyze.shared.paired import bounds, discovered
from profkit.analyze.shared.paired_parts import SIDES, PairedParts, of_side, paired_parts
from profkit.core.result import Interval, Result
from profkit.tables.tree_paths import SEPARATOR

OVERHEAD = "profiler_overhead"
OTHER = "other"
_DISPATCH = f"{gpu.IDLE}.python"
_CONFIDENCE = 0.95
_SMALL = 0.02
_EXPLAINS = 0.6
_MOST = 8
_MUCH = 0.25

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

    is_noise: bool = False
    """Whether the pairs do not tell the difference from none, with all bars beside it."""


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

    launching_ms: tuple[float, float]
    """`PairedParts.launching_ms`."""

    bars: tuple[Bar, ...]
    """The largest difference first, but small ones together last, as ``other``."""

    @property
    def difference_ms(self) -> float:
        """What all bars sum to."""
        return self.after_ms - self.before_ms

    def largest(self, count: int) -> tuple[Bar, ...]:
        """Return the bars with the largest difference that repeats tell from chance."""
        return tuple(bar for bar in self.bars if bar.id != OTHER and not bar.is_noise)[:count]

    def likely(self) -> tuple[Bar, ...]:
        """Return the others that are much of the difference, and by themselves no chance.

        Among many causes that vary, one may seem to differ by chance: these are not sure.
        """
        return tuple(
            bar
            for bar in self.bars
            if bar.is_noise
            and bar.id not in {OTHER, OVERHEAD}
            and bar.interval is not None
            and not covers_none(bar.interval)
            and bar.difference_ms * self.difference_ms > 0
            and abs(bar.difference_ms) >= _MUCH * abs(self.difference_ms)
        )

    @property
    def launches_differ(self) -> bool:
        """Whether the GPU is idle longer, or shorter, as the CPU takes longer or less to launch."""
        before, after = self.launching_ms
        idle = [bar for bar in self.largest(len(self.bars)) if bar.id.startswith(_DISPATCH)]
        return any(
            min(before, after) > 0
            and bar.difference_ms * (after - before) > 0
            and abs(after - before) > _SMALL * self.before_ms
            for bar in idle
        )


def waterfall(
    before: Result, after: Result, unprofiled_ms: tuple[ByRepeat, ByRepeat] | None = None
) -> Waterfall | None:
    """Return the waterfall between two results of ``causes``; None if one has divided no time.

    `unprofiled_ms` are the times of a step without a profiler, of each run by repeat.
    """
    parts = paired_parts(before, after)
    return None if parts is None else waterfall_of(parts, unprofiled_ms, is_judged=True)


def waterfall_of(
    parts: PairedParts,
    unprofiled_ms: tuple[ByRepeat, ByRepeat] | None = None,
    *,
    is_judged: bool = False,
) -> Waterfall:
    """Return the waterfall between two runs whose parts are known.

    Its ends are the means of steps, as everything else tells them, or those by which runs are
    judged.
    """
    times = parts.times.copy()
    is_timed = unprofiled_ms is not None and all(
        set(own) <= set(known) for own, known in zip(parts.repeats, unprofiled_ms, strict=True)
    )
    if unprofiled_ms and is_timed:
        known = [
            known[repeat]
            for known, own in zip(unprofiled_ms, parts.repeats, strict=True)
            for repeat in own
        ]
        times.loc[OVERHEAD, "", "", ""] = known - times.sum()
    if is_judged:
        times = _as_geometric(times)
    whole = bar("", times, parts.pairs)
    causes = [
        _of_cause(str(cause), rows, parts.pairs)
        for cause, rows in times.groupby(level="cause", sort=False)
    ]
    return Waterfall(
        before_ms=whole.before_ms,
        after_ms=whole.after_ms,
        basis="unprofiled" if is_timed else "traced",
        rank_before=parts.ranks[0],
        rank_after=parts.ranks[1],
        pairs=parts.pairs,
        work=parts.work,
        launching_ms=parts.launching_ms,
        bars=_gathered(
            _told_from_noise(tuple(shown for found in causes for shown in _cut(found))), whole
        ),
    )


def _as_geometric(times: pd.DataFrame) -> pd.DataFrame:
    """Return times with each side scaled so that its steps have their geometric mean on average.

    Runs are judged by the ratio of geometric means; the ends of the waterfall are the same numbers.
    """
    scaled = times.copy()
    for side in SIDES:
        steps = of_side(times, side).sum(axis=0)
        if len(steps) > 1 and (steps > 0).all():
            scaled[side] = times[side] * (np.exp(np.log(steps).mean()) / steps.mean())
    return scaled


def _of_cause(cause: str, rows: pd.DataFrame, pairs: int) -> Bar:
    labels = {str(label): below for label, below in rows.groupby(level="operator", sort=False)}
    parts = [
        bar(
            f"{cause}.{_word(label)}",
            below,
            pairs,
            title=f"{_title(cause)}: {label or 'other'}",
            parts=_kernels(f"{cause}.{_word(label)}", label, below, pairs),
        )
        for label, below in labels.items()
    ]
    parts = _ordered(parts) if set(labels) != {""} else []
    return bar(cause, rows, pairs, title=_title(cause), parts=parts)


def _kernels(above: str, label: str, rows: pd.DataFrame, pairs: int) -> list[Bar]:
    kernels = {str(name): below for name, below in rows.groupby(level="kernel", sort=False)}
    if not set(kernels) - {"", label}:
        return []
    return _ordered(
        bar(f"{above}.{_word(name)}", below, pairs, title=name or OTHER)
        for name, below in kernels.items()
    )


def _word(label: str) -> str:
    return label.replace(".", "_") or OTHER


def _title(cause: str) -> str:
    if cause == OVERHEAD:
        return "Correction for profiler overhead, which the causes contain"
    top, *below = cause.split(".")
    if {BLOCKED, START_UP} & set(below[:-1]) or top == "exposed_copies":
        return f"{names.title('.'.join(cause.split('.')[:-1]))}: {names.title(cause)}"
    return names.title(cause)


def bar(
    name: str, rows: pd.DataFrame, pairs: int, *, title: str = "", parts: Iterable[Bar] = ()
) -> Bar:
    """Return the bar of what `rows` of `PairedParts.times` are together."""
    both = [of_side(rows, side) for side in SIDES]
    before, after = (times.sum(axis=0) for times in both)
    by_pair = tuple((after - before).tolist()) if pairs else ()
    changes = both[1].mean(axis=1) - both[0].mean(axis=1)
    return Bar(
        id=name,
        title=title,
        before_ms=float(before.mean()),
        after_ms=float(after.mean()),
        difference_ms=float(after.mean() - before.mean()),
        change="" if before.any() and after.any() else "new" if after.any() else "removed",
        interval=interval_of(by_pair),
        by_pair=by_pair,
        module=_changed_most(rows.index.get_level_values("module"), changes.tolist()),
        parts=tuple(parts),
    )


def _changed_most(modules: Iterable[str], changes: Iterable[float]) -> str:
    """Return the module with most of the difference; empty if none was recorded."""
    sums: dict[str, float] = {}
    for module, change in zip(modules, changes, strict=True):
        sums[module] = sums.get(module, 0.0) + change
    sums.pop("", None)
    most = max(sorted(sums), key=lambda module: abs(sums[module]), default="")
    return most.replace(SEPARATOR, " > ")


def interval_of(by_pair: Sequence[float]) -> Interval | None:
    """Return the interval of a mean difference; None for fewer than two pairs."""
    if len(by_pair) <= 1:
        return None
    low, high = bounds(np.array(by_pair), _CONFIDENCE)
    return Interval(low=float(low), high=float(high), confidence=_CONFIDENCE)


def covers_none(interval: Interval | None) -> bool:
    """Say whether repeats do not tell a difference from none; without an interval they may."""
    return interval is not None and interval.low <= 0 <= interval.high


def _told_from_noise(bars: tuple[Bar, ...]) -> tuple[Bar, ...]:
    """Return `bars` with those marked that may be chance, of the many that there are."""
    if not bars or len(bars[0].by_pair) <= 1:
        return bars
    return tuple(
        replace(bar, is_noise=not is_told, parts=_told_from_noise(bar.parts))
        for bar, is_told in zip(bars, discovered([bar.by_pair for bar in bars]), strict=True)
    )


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
    # What may be chance is shown after what is not.
    first = sorted(ordered, key=lambda bar: bar.is_noise)[:_MOST]
    kept = [
        bar
        for bar in ordered
        if bar in first and (abs(bar.difference_ms) > least or bar.id == OVERHEAD)
    ]
    small = [bar for bar in ordered if bar not in kept]
    if not small:
        return tuple(kept)
    before, after = (sum(bar.before_ms for bar in small), sum(bar.after_ms for bar in small))
    by_pair = tuple(map(sum, zip(*(bar.by_pair for bar in small), strict=True)))
    interval = interval_of(by_pair)
    other = Bar(
        id=OTHER,
        title=f"other ({len(small)})",
        before_ms=before,
        after_ms=after,
        difference_ms=after - before,
        interval=interval,
        by_pair=by_pair,
        parts=tuple(small),
        is_noise=covers_none(interval),
    )
    return (*kept, other)
