"""Sweep: which run to take, the knee, scaling, the Pareto set, and runs that were not made."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from profkit.analyze._peak_curves import SOURCES, peaks_by_run
from profkit.analyze._sweep_axes import BATCH, RANKS, Value, axes_of, in_words
from profkit.analyze._sweep_model import PEAK_MEMORY, STEP_TIME, predicted
from profkit.analyze._sweep_speed import BY_BATCH, STEPS, in_words_of, speed_of
from profkit.analyze.base import Behaviour, ByRun, ResultTables, analysis
from profkit.analyze.shared.paired import FEWEST_PAIRS, TOO_FEW, Ratio, adjusted, compared
from profkit.core.drawing import Drawing
from profkit.core.formatting import counted, number, size
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, Table, table
from profkit.core.settings import Settings
from profkit.core.step_time import timed_alike

_TWO = 2
_FRONT = "Pareto front"
_TITLES = {STEP_TIME: "Step time", PEAK_MEMORY: "Peak memory"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/sweep.yaml``."""

    knee_share: float = 0.9
    """Share of the best throughput that is enough: the smallest batch with it is the knee."""

    memory_band: float = 0.01
    """Difference of memory that does not matter, as a share."""

    confidence: float = 0.95
    """Least probability that no run is called slower that is not, and of the intervals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One run of the sweep."""

    run: str
    choice: Mapping[str, Value]
    """Values of the axes."""

    speed: Metric
    """Throughput, or steps a second where samples were not counted."""

    memory: float
    """Peak in bytes; infinite where it is not known."""


@analysis(title="Sweep", across="runs")
def analyze(
    steps: ByRun,
    memory_peak: Annotated[ByRun | None, ResultTables("phases peaks")],
    behaviour: dict[str, Behaviour],
    config: Config,
) -> Result:
    """Which run of a sweep is best, and what would runs give that were not made?

    A run is called slower than the fastest only if their repeats tell them apart, with all runs
    taken together (Holm). Where all others surely have most of the best throughput, the one of
    them with the least memory is recommended, and else none. The knee is the smallest batch with
    most of the best throughput. Scaling is throughput per rank over that with the fewest ranks.
    In the Pareto set are runs that no other beats in throughput without taking more memory.
    Predictions are of a curve of step time, and of memory, along one axis: a line, a parabola
    where that is nearer, or against the share of one rank; with the interval of one more repeat.
    """
    source, peaks = peaks_by_run({"memory_peak": memory_peak, "steps": steps})
    steps, apart = timed_alike(steps)
    axes = axes_of({run: behaviour[run] for run in steps})
    points = [
        Point(
            run=run,
            choice=axes[run],
            speed=speed,
            memory=max(peaks[run].values()) if run in peaks else math.inf,
        )
        for run in steps
        if (speed := speed_of(run, steps, axes)) is not None
    ]
    if len(points) < _TWO or not points[0].choice:
        reason = "it takes two runs with step times that differ in a setting"
        return Result(
            abstentions=(*apart, Abstention(what="what to take of a sweep", reason=reason))
        )
    best = max(points, key=lambda point: point.speed.value)
    slower = _slower(points, best, config.confidence)
    rows = pd.DataFrame(_rows(points, best, slower, config))
    counted_how = "By the batch: the workload does not say how many samples a step has."
    note = counted_how if best.speed.title == BY_BATCH else ""
    tables = {"runs": table(rows, title="Runs of the sweep", note=note)}
    charts: tuple[Chart, ...] = ()
    if all(math.isfinite(point.memory) for point in points):
        tables["pareto"] = _front(rows, _column(best.speed))
        charts = (_chart(_column(best.speed)),)
    curves, missing = predicted(steps, peaks, axes, config.confidence)
    notes = {PEAK_MEMORY: f" Peaks are the {SOURCES[source][1]}."}
    for metric, curve in curves.items():
        title = f"{_TITLES[metric]} of runs that were not made"
        note = f"Interval of one more run, by a curve along the axis.{notes.get(metric, '')}"
        tables[f"predicted_{metric}"] = table(curve, title=title, note=note)
    return Result(
        findings=tuple(_findings(points, best, slower, config)),
        tables=tables,
        charts=charts,
        drawings=_drawings(points),
        abstentions=(*apart, *_unsure(points, best, slower), *missing),
    )


def _slower(points: Sequence[Point], best: Point, confidence: float) -> dict[str, Ratio]:
    """Return the runs that the repeats tell from the fastest, with how much slower they are."""
    ratios = {
        point.run: ratio
        for point in points
        if point is not best
        and (ratio := compared(point.speed.by_repeat, best.speed.by_repeat, confidence=confidence))
    }
    p_values = adjusted([ratio.p_value for ratio in ratios.values()])
    pairs = zip(ratios.items(), p_values, strict=True)
    return {
        run: ratio
        for (run, ratio), p_value in pairs
        if p_value <= 1 - confidence and ratio.ratio < 1 and ratio.repeats >= FEWEST_PAIRS
    }


def _rows(
    points: Sequence[Point], best: Point, slower: Mapping[str, Ratio], config: Config
) -> Iterator[dict[str, Value]]:
    efficiency = _efficiency(points, config.confidence)
    for point in points:
        ratio = compared(point.speed.by_repeat, best.speed.by_repeat, confidence=config.confidence)
        interval = ratio.interval if ratio else None
        row: dict[str, Value] = {
            "run": point.run,
            **point.choice,
            _column(point.speed): point.speed.value,
            "of_fastest_share": ratio.ratio if ratio else math.nan,
            "low_share": interval.low if interval else math.nan,
            "high_share": interval.high if interval else math.nan,
            PEAK_MEMORY: point.memory if math.isfinite(point.memory) else math.nan,
            "is_slower": "yes" if point.run in slower else "not known",
            "on_pareto_front": "no" if _is_beaten(point, points, config) else "yes",
        }
        if point is best and len(slower) == len(points) - 1:
            row["is_slower"] = "fastest"
        if efficiency:
            found = efficiency.get(point.run)
            row["scaling_share"] = found.ratio if found else math.nan
        yield row


def _column(speed: Metric) -> str:
    return "throughput_per_s" if speed.title != STEPS else "steps_per_s"


def _is_beaten(point: Point, points: Sequence[Point], config: Config) -> bool:
    """Say whether another run is surely faster and takes no more memory."""
    return any(
        point.run in _slower([point, other], other, config.confidence)
        and math.isfinite(point.memory)
        and other.memory <= point.memory * (1 + config.memory_band)
        for other in points
        if other is not point
    )


def _efficiency(points: Sequence[Point], confidence: float) -> dict[str, Ratio]:
    """Return throughput per rank over that of the run with the fewest ranks, all else equal."""
    found: dict[str, Ratio] = {}
    for group in _groups(points, RANKS):
        fewest, *others = group
        for point in others:
            ranks = float(point.choice[RANKS]) / float(fewest.choice[RANKS])
            per_rank = {repeat: value / ranks for repeat, value in point.speed.by_repeat.items()}
            ratio = compared(per_rank, fewest.speed.by_repeat, confidence=confidence)
            if ratio is not None and point.speed.title != STEPS:
                found[point.run] = ratio
    return found


def _groups(points: Sequence[Point], axis: str) -> list[list[Point]]:
    """Return the points that differ in a numeric `axis` alone, in its order."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        if isinstance(point.choice.get(axis), int | float):
            others = {key: value for key, value in point.choice.items() if key != axis}
            groups.setdefault(str(others), []).append(point)
    ordered = [sorted(group, key=lambda one: float(one.choice[axis])) for group in groups.values()]
    return [group for group in ordered if len(group) >= _TWO]


def _drawings(points: Sequence[Point]) -> dict[str, Drawing]:
    """Return the map of throughput and memory by the first axis and the others; nothing for one."""
    axes = [*points[0].choice]
    if len(axes) < _TWO:
        return {}
    first, *others = axes
    ordered = sorted(points, key=lambda point: [_in_order(point.choice[axis]) for axis in others])
    placed = {(point.choice[first], _beside(point, others)): point for point in points}
    sides: list[list[Value]] = [
        sorted({point.choice[first] for point in points}, key=_in_order),
        [*dict.fromkeys(_beside(point, others) for point in ordered)],
    ]
    cells = [placed.get((row, column)) for row, column in itertools.product(*sides)]
    speed = points[0].speed
    layers = {
        (speed.title, speed.unit): [cell.speed.value if cell else None for cell in cells],
        (_TITLES[PEAK_MEMORY], "bytes"): [
            cell.memory if cell and math.isfinite(cell.memory) else None for cell in cells
        ],
    }
    rows, columns = (
        {"of": axis, "names": values}
        for axis, values in zip((first, " and ".join(others)), sides, strict=True)
    )
    shown = [
        {"title": title, "group": "Sweep", "unit": unit, "columns": len(sides[1]), "values": values}
        for (title, unit), values in layers.items()
        if any(value is not None for value in values)
    ]
    title = f"Runs by {' and '.join(axes)}"
    names = [cell.run if cell else "" for cell in cells]
    data = {"rows": rows, "columns": columns, "layers": shown, "names": names}
    return {"by_axes": Drawing(kind="matrix", title=title, data=data)}


def _beside(point: Point, axes: Sequence[str]) -> Value:
    """Return where a run stands along some axes: its value, or its values in words."""
    values = {axis: point.choice[axis] for axis in axes}
    return in_words(values) if len(values) > 1 else values[axes[0]]


def _in_order(value: Value) -> tuple[float, str]:
    """Return what sorts numbers by their size, and then texts."""
    return (math.inf, value) if isinstance(value, str) else (float(value), "")


def _front(runs: pd.DataFrame, speed: str) -> Table:
    """Return the runs, and below them again those faster than all with less memory, as a line."""
    shown = runs[["run", PEAK_MEMORY, speed]]
    ordered = shown.sort_values([PEAK_MEMORY, speed], ascending=[True, False])
    faster = ordered[speed] > ordered[speed].cummax().shift(fill_value=-math.inf)
    both = pd.concat([shown, ordered[faster].assign(run=_FRONT)])
    return table(both, title="Throughput against peak memory")


def _chart(speed: str) -> Chart:
    return Chart(
        kind="scatter",
        title="Throughput against peak memory, with the Pareto front",
        table="pareto",
        x=PEAK_MEMORY,
        y=(speed,),
        color="run",
        lines=(_FRONT,),
    )


def _findings(
    points: Sequence[Point],
    best: Point,
    slower: Mapping[str, Ratio],
    config: Config,
) -> Iterator[Finding]:
    equal = [point for point in points if point.run not in slower]
    if len(equal) < len(points) and all(_is_as_fast(point, best, config) for point in equal):
        chosen, knee = _recommended(equal, best), _knee(points, best, config.knee_share)
        yield Finding(
            severity=Severity.INFO,
            message=f"Take {in_words(chosen.choice)}: {_reason(chosen, best, equal, points)}"
            f"{_less(chosen, best, knee)}.",
            metric="sweep.throughput_per_s",
            value=chosen.speed.value,
            unit=chosen.speed.unit,
            evidence={"run": chosen.run}
            | ({"knee_batch": float(knee.choice[BATCH])} if knee else {}),
        )
    if efficiency := _efficiency(points, config.confidence):
        worst = min(efficiency, key=lambda run: efficiency[run].ratio)
        ranks = next(point.choice[RANKS] for point in points if point.run == worst)
        share = efficiency[worst].ratio
        yield Finding(
            severity=Severity.INFO,
            message=f"With {ranks} ranks, throughput per rank is {share:.0%} of that with fewest.",
            metric="sweep.scaling_share",
            value=share,
            unit="share",
            evidence={"run": worst},
        )


def _is_as_fast(point: Point, best: Point, config: Config) -> bool:
    """Say whether a run surely has a throughput that is enough: not to know is not the same."""
    if point is best:
        return True
    ratio = compared(point.speed.by_repeat, best.speed.by_repeat, confidence=config.confidence)
    interval = ratio.interval if ratio else None
    return interval is not None and interval.low >= config.knee_share


def _recommended(equal: Sequence[Point], best: Point) -> Point:
    """Return the run with the least memory of those that are as fast as the fastest."""
    if any(math.isinf(point.memory) for point in equal):
        return best
    return min(equal, key=lambda point: (point.memory, -point.speed.value))


def _reason(chosen: Point, best: Point, equal: Sequence[Point], points: Sequence[Point]) -> str:
    speed = in_words_of(chosen.speed)
    others = [point for point in equal if point is not chosen]
    if others:
        other = max(others, key=lambda point: point.memory)
        more = f" and takes {size(other.memory)} instead of {size(chosen.memory)}"
        known = math.isfinite(other.memory)
        return (
            f"{speed}, and {in_words(other.choice)} is not known to be faster"
            f"{more if known else ''}"
        )
    heavier = [point for point in points if best.memory < point.memory < math.inf]
    most = max(heavier, key=lambda point: point.memory, default=None)
    fits = f"; {in_words(most.choice)} also fits" if most else ""
    return f"throughput peaks there, at {speed}{fits}"


def _less(chosen: Point, best: Point, knee: Point | None) -> str:
    """Return how much of the throughput the knee has, if it is a smaller batch than `chosen`."""
    if knee is None or float(knee.choice[BATCH]) >= float(chosen.choice[BATCH]):
        return ""
    return f"; {in_words(knee.choice)} has {knee.speed.value / best.speed.value:.0%} of it"


def _knee(points: Sequence[Point], best: Point, share: float) -> Point | None:
    """Return the run with the smallest batch that has this share of the best throughput.

    None where the batch was not swept.
    """
    groups = (group for group in _groups(points, BATCH) if best in group)
    enough = (
        point
        for group in groups
        for point in group
        if point.speed.value >= share * best.speed.value
    )
    return next(enough, None)


def _unsure(
    points: Sequence[Point], best: Point, slower: Mapping[str, Ratio]
) -> Iterator[Abstention]:
    if len(slower) == len(points) - 1:
        return
    left = [point for point in points if point is not best and point.run not in slower]
    unknown = sorted(left, key=lambda point: -point.speed.value)
    listed = ", ".join(
        f"{number(point.speed.value)} of {in_words(point.choice)}" for point in unknown[:_TWO]
    )
    if more := len(unknown[_TWO:]):
        listed += f" and {counted(more, 'other')}"
    if min(len(point.speed.by_repeat) for point in points) < FEWEST_PAIRS:
        reason = TOO_FEW
    else:
        reason = "their repeats do not tell them apart: more repeats, or it does not matter"
    yield Abstention(
        what=f"whether {in_words(best.choice)} is the fastest",
        reason=f"{in_words_of(best.speed)} against {listed}; {reason}",
    )
