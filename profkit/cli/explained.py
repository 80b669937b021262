"""Why two runs differ: the waterfall of their causes, and its largest bars in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.analyze.shared.matched_parts import matched, stacks
from profkit.analyze.shared.memory_waterfall import MemoryWaterfall, largest, memory_waterfall
from profkit.analyze.shared.paired_parts import paired_parts
from profkit.analyze.shared.waterfall import (
    OVERHEAD,
    Bar,
    Waterfall,
    covers_none,
    interval_of,
    waterfall,
)
from profkit.cli.measured_run import METRICS, MeasuredRun
from profkit.convert.drawing.flamegraph import differential_svg
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.formatting import counted, milliseconds, shortened, size
from profkit.core.result import Result
from profkit.core.step_time import BASELINE, is_mean_of_uneven

_MS = 1e6
_LARGE = 0.2
_CHANCE = 0.05
"""Of a step: two captures of one program differ by that much."""

_BARS = 3
_LIKELY = "  (likely; causes vary too much to be sure)"
_SMALL = 0.02
EXPLAINED = frozenset({"step_time", "peak_memory"})
"""Metrics of which it is known what they consist of."""
_OF_TIME = frozenset({"step_time", "throughput", "energy"})


@dataclass(frozen=True, kw_only=True, slots=True)
class DoneInSomeSteps:
    """Work that one run, or both, do in some steps only, so that the median step leaves it out."""

    title: str
    """What it is, or the name of the call."""

    place: str
    """Line of the program that does it; in both runs, that of the second."""

    before_ms: float
    after_ms: float
    """Its time, as a mean over all steps."""

    before_steps: str
    after_steps: str
    """In how many of them it was seen, as ``3 of 92``; empty if in none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """Why two runs differ, as far as that is known."""

    step_time: Waterfall | None = None
    peak_memory: MemoryWaterfall | None = None
    in_some_steps: tuple[DoneInSomeSteps, ...] = ()
    """The largest difference first."""


def explained(before: MeasuredRun, after: MeasuredRun) -> Why:
    """Return the waterfalls between two runs."""
    causes, peaks = (
        [run.reasons.get(name) for run in (before, after)] for name in ("causes", "memory_peak")
    )
    seldom = _in_some_steps(causes[0], causes[1]) if causes[0] and causes[1] else ()
    times = [unprofiled_ms(run) for run in (before, after)]
    are_means = {
        is_mean_of_uneven(run.metrics.get(METRICS["step_time"])) for run in (before, after)
    }
    if (seldom and True in are_means) or len(are_means) > 1:
        # The causes are those of other steps than these means, and no mean goes with a median.
        times = []
    timed = (times[0], times[1]) if times and all(times) else None
    return Why(
        step_time=waterfall(causes[0], causes[1], timed) if causes[0] and causes[1] else None,
        peak_memory=memory_waterfall(peaks[0], peaks[1]) if peaks[0] and peaks[1] else None,
        in_some_steps=seldom,
    )


def _in_some_steps(*causes: Result) -> tuple[DoneInSomeSteps, ...]:
    """Return what two results of ``causes`` know of what is done in some steps alone."""
    before, after = map(_seldom, causes)
    none: dict[str, Any] = {"in_steps": "", "covered_ms": 0.0}
    found = [
        DoneInSomeSteps(
            title=title,
            place=(after.get(title) or before[title])["place"],
            before_ms=before.get(title, none)["covered_ms"],
            after_ms=after.get(title, none)["covered_ms"],
            before_steps=before.get(title, none)["in_steps"],
            after_steps=after.get(title, none)["in_steps"],
        )
        for title in {**before, **after}
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.after_ms - one.before_ms)))


def _seldom(causes: Result) -> dict[str, Mapping[str, Any]]:
    """Return the largest match in some steps alone, by what it is."""
    rows = causes.tables["matches"].records() if "matches" in causes.tables else []
    # The largest comes first in the table, and last here.
    return {str(row["title"]): row for row in reversed(rows) if row.get("in_steps")}


def explained_of(metrics: frozenset[str], before: MeasuredRun, after: MeasuredRun) -> Why:
    """Return the waterfalls of `metrics` alone, by the names that users type."""
    found = explained(before, after) if metrics else Why()
    return Why(
        step_time=found.step_time if metrics & _OF_TIME else None,
        peak_memory=found.peak_memory if "peak_memory" in metrics else None,
        in_some_steps=found.in_some_steps if metrics & _OF_TIME else (),
    )


def draw(path: Path | None, before: MeasuredRun, after: MeasuredRun) -> None:
    """Draw the difference of two runs into a file, if one is named."""
    if path is not None:
        write_atomically(path, flame_graph(before, after).encode())


def flame_graph(before: MeasuredRun, after: MeasuredRun) -> str:
    """Return the differential flame graph of two runs as SVG; raises `InputError`."""
    causes = [run.reasons.get("causes") for run in (before, after)]
    parts = paired_parts(causes[0], causes[1]) if causes[0] and causes[1] else None
    if parts is None:
        raise InputError(
            f"{before.name}, {after.name}: one has no causes of its step time",
            hint="profkit run makes results anew",
        )
    drawn = (
        (
            stack.frames,
            max(stack.before_ms, stack.after_ms) * _MS,
            [ms * _MS for ms in stack.by_pair or (stack.after_ms - stack.before_ms,)],
        )
        for stack in stacks(parts, matched(parts))
    )
    return differential_svg(
        drawn,
        lambda changes: covers_none(interval_of(changes)),
        unit="ns",
        title=f"{after.name} against {before.name}, per step: red is more, blue less, grey noise",
    )


def unprofiled_ms(run: MeasuredRun) -> dict[int, float]:
    """Return the step time of each repeat without a profiler, nothing where it was not timed."""
    metric = run.metrics.get(METRICS["step_time"])
    if metric is None or run.facts.get("tool") != BASELINE:
        return {}
    return {repeat: value / _MS for repeat, value in metric.by_repeat.items()}


def lines(why: Why) -> Iterator[str]:
    """Yield what is done in some steps alone, and the largest bars of each waterfall."""
    if why.in_some_steps:
        yield "in some steps only, mean over all steps:"
    for one in why.in_some_steps[:_BARS]:
        times = " -> ".join(
            f"{milliseconds(ms)} ms{f' ({steps})' if steps else ''}"
            for ms, steps in (
                (one.before_ms, one.before_steps),
                (one.after_ms, one.after_steps),
            )
        )
        yield f"  {times}  {shortened(one.title)}, {shortened(one.place)}"
    if why.step_time:
        yield from _of_time(why.step_time)
    if why.peak_memory:
        yield from _of_memory(why.peak_memory)


def _of_memory(found: MemoryWaterfall) -> Iterator[str]:
    """Yield what differs most at the peaks."""
    difference = found.after_bytes - found.before_bytes
    if not difference:
        return
    ends = f"{size(found.before_bytes)} to {size(found.after_bytes)}"
    yield f"why, from {ends} allocated at the peak:"
    for title, bar in list(largest(found.bars))[:_BARS]:
        if abs(bar.difference_bytes) > _SMALL * abs(difference):
            sign = "+" if bar.difference_bytes > 0 else "-"
            yield f"  {sign}{size(abs(bar.difference_bytes))}  {shortened(title)}"


def _of_time(found: Waterfall) -> Iterator[str]:
    """Yield the largest bars that the repeats tell from chance, the largest difference first."""
    sure = f"95% intervals over {counted(found.pairs, 'pair')}"
    if found.pairs <= 1:
        sure = "no intervals: one capture of each" if found.pairs else "no intervals: no pairs"
    ranks = " and ".join(map(str, dict.fromkeys((found.rank_before, found.rank_after))))
    times = f"{milliseconds(found.before_ms)} to {milliseconds(found.after_ms)} ms"
    step = "per traced step" if found.basis == "traced" else "per step"
    if found.work != 1:
        step = "for the same work"
    yield f"why, from {times} {step}, rank {ranks} ({sure}):"
    if found.work != 1:
        yield (
            f"  no steps are marked: B recorded {found.work:.3g} times the calls of A, "
            "and its times are divided by that"
        )
    if reason := unknown(found):
        yield f"  {reason}"
        return
    likely = found.likely()
    known = [bar for bar in found.largest(len(found.bars)) if bar.id != OVERHEAD]
    bars = sorted((*known[:_BARS], *likely), key=lambda bar: -abs(bar.difference_ms))
    if not bars:
        is_large = abs(found.difference_ms) > _LARGE * max(found.before_ms, found.after_ms)
        why = ": traced steps vary too much to tell which; repeat on an idle machine"
        yield f"  no cause differs by more than chance{why if is_large else ''}"
    for bar in bars[:_BARS]:
        yield f"{_line(bar)}{_LIKELY if bar in likely else ''}"
    traced_ms = _traced_ms(found)
    if abs(_difference(traced_ms) - found.difference_ms) > _LARGE * abs(found.difference_ms):
        yield f"  these are causes of traced steps, which took {_ends(traced_ms)}"
    if found.launches_differ:
        before, after = map(milliseconds, found.launching_ms)
        work = "kernels of a step" if found.work == 1 else "same kernels"
        yield f"  the CPU takes {after} ms instead of {before} ms to launch the {work}"


def unknown(found: Waterfall) -> str:
    """Return why the causes say nothing of a difference, "" if they do."""
    if found.pairs <= 1 and abs(found.difference_ms) < _CHANCE * found.before_ms:
        return "so little may be chance in one capture of each: repeats=6 tells whether it is"
    traced_ms = _traced_ms(found)
    if _difference(traced_ms) * found.difference_ms < _LARGE * found.difference_ms**2:
        return f"not known: traced steps took {_ends(traced_ms)}; repeat on an idle machine"
    return ""


def _traced_ms(found: Waterfall) -> tuple[float, float]:
    """Return the time of traced steps of both, which is what the causes are of."""
    beyond = [bar for bar in found.bars if bar.id == OVERHEAD]
    return (
        found.before_ms - sum(bar.before_ms for bar in beyond),
        found.after_ms - sum(bar.after_ms for bar in beyond),
    )


def _difference(ends_ms: tuple[float, float]) -> float:
    return ends_ms[1] - ends_ms[0]


def _ends(ends_ms: tuple[float, float]) -> str:
    before, after = map(milliseconds, ends_ms)
    return f"{before} and {after} ms"


def _line(bar: Bar) -> str:
    interval = ""
    if bar.interval is not None:
        interval = f" ({bar.interval.low:+.3g} to {bar.interval.high:+.3g})"
    change = f", {bar.change}" if bar.change else ""
    module = f", in {bar.module}" if bar.module else ""
    sign = "+" if bar.difference_ms > 0 else "-"
    change_ms = f"{sign}{milliseconds(abs(bar.difference_ms))} ms{interval}"
    return f"  {change_ms}  {shortened(bar.title)}{change}{shortened(module)}"
