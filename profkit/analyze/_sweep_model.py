"""Step time and memory along the axes of a sweep, and what runs that were not made would give."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from profkit.analyze._linear_fit import BENT, INVERSE, STRAIGHT
from profkit.analyze._peak_curves import PeakCurve, Phases, fitted_peak
from profkit.analyze._sweep_axes import BATCH, RANKS, Value, in_words
from profkit.analyze.base import ByRun
from profkit.core.result import Abstention

_FEWEST = 3
# Least share of a value off a straight line from which a bent one is tried, or none is drawn.
_BENT = 0.01
_CURVED = 0.05

STEP_TIME, PEAK_MEMORY = "step_time_ns", "peak_memory_bytes"

Along = Sequence[tuple[int, str]]
"""Values of one axis, and the runs that have them."""


def predicted(
    steps: ByRun,
    peaks: Mapping[str, Phases],
    axes: Mapping[str, Mapping[str, Value]],
    confidence: float,
) -> tuple[dict[str, pd.DataFrame], list[Abstention]]:
    """Return predictions with intervals by metric, and what no curve describes.

    `peaks` are those of memory, of each run.
    """
    measured = {STEP_TIME: _step_times(steps), PEAK_MEMORY: peaks}
    rows: dict[str, list[dict[str, Value]]] = {metric: [] for metric in measured}
    missing = []
    for axis, others, runs in _lines_of_runs(axes):
        for metric, known in measured.items():
            own = [(value, known[run]) for value, run in runs if run in known]
            if len({value for value, _ in own}) < _FEWEST:
                continue
            values, found = zip(*own, strict=True)
            curve = _curve(axis, values, found)
            if (off := _off(curve, values)) > _CURVED:
                what = f"{metric.rpartition('_')[0].replace('_', ' ')} at other values of {axis}"
                reason = f"{axis} has a value {off:.0%} off the curve through all of them"
                missing.append(
                    Abstention(what=f"{what}{others and f' with {others}'}", reason=reason)
                )
                continue
            about: dict[str, Value] = {"with": others, "axis": axis}
            rows[metric] += [about | row for row in _of_curve(curve, values, metric, confidence)]
    return {name: pd.DataFrame(found) for name, found in rows.items() if found}, missing


def _step_times(steps: ByRun) -> dict[str, Phases]:
    """Return the mean over repeats, so that each value of an axis counts once."""
    times = {run: result.metrics.get(STEP_TIME) for run, result in steps.items()}
    return {
        run: {"": sum(time.by_repeat.values()) / len(time.by_repeat)}
        for run, time in times.items()
        if time and time.by_repeat
    }


def _lines_of_runs(
    axes: Mapping[str, Mapping[str, Value]],
) -> Iterator[tuple[str, str, Along]]:
    """Yield each numeric axis, the values of the others in words, and the runs along it."""
    names = dict.fromkeys(axis for choice in axes.values() for axis in choice)
    for axis in names:
        found: dict[str, list[tuple[int, str]]] = {}
        for run, choice in axes.items():
            if isinstance(value := choice.get(axis), int) and value > 0:
                others = in_words({key: one for key, one in choice.items() if key != axis})
                found.setdefault(others, []).append((value, run))
        for others, runs in found.items():
            yield axis, others, sorted(runs)


def _curve(axis: str, values: Sequence[int], found: Sequence[Phases]) -> PeakCurve:
    """Return the curve along an axis: straight, bent where that is nearer, or of shares."""
    if axis == RANKS:
        return fitted_peak(values, found, INVERSE)
    straight = fitted_peak(values, found, STRAIGHT)
    # Samples do not attend to one another: what is not straight along the batch is noise.
    if axis == BATCH or _off(straight, values) <= _BENT or len(set(values)) <= len(BENT):
        return straight
    bent = fitted_peak(values, found, BENT)
    return min(straight, bent, key=lambda curve: _off(curve, values))


def _off(curve: PeakCurve, values: Sequence[int]) -> float:
    return curve.highest(max(values)).worst_share


def _of_curve(
    curve: PeakCurve, values: Sequence[int], metric: str, confidence: float
) -> Iterator[dict[str, Value]]:
    for value in _not_run(values):
        expected, margin = curve.at(value), curve.margin(value, confidence)
        if expected <= 0 or math.isnan(margin):
            continue
        unit = metric.rpartition("_")[2]
        yield {
            "value": value,
            metric: expected,
            f"low_{unit}": max(0.0, expected - margin),
            f"high_{unit}": expected + margin,
        }


def _not_run(values: Sequence[int]) -> list[int]:
    """Return a value between each two that were run, and twice the largest."""
    ordered = sorted(set(values))
    middles = [(low + high) // 2 for low, high in itertools.pairwise(ordered)]
    return sorted({*middles, 2 * ordered[-1]} - {*ordered})
