"""Step time and memory against the batch, and what batches that were not run would give."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from profkit.analyze._linear_fit import Line, fitted_line
from profkit.analyze._sweep_axes import Value, in_words
from profkit.analyze.base import ByRun
from profkit.core.result import Abstention, Metric

_BATCH = "batch"
_FEWEST = 3
_CURVED = 0.05
_METRICS = ("step_time_ns", "peak_memory_bytes")


def predicted(
    steps: ByRun, axes: Mapping[str, Mapping[str, Value]], confidence: float
) -> tuple[dict[str, pd.DataFrame], list[Abstention]]:
    """Return predictions with intervals by metric, and what a line does not describe."""
    rows: dict[str, list[dict[str, Value]]] = {metric: [] for metric in _METRICS}
    missing = []
    for others, runs in _by_others(axes).items():
        for metric in _METRICS:
            known = [(batch, steps[run].metrics.get(metric)) for batch, run in runs]
            measured = [(batch, found) for batch, found in known if found and found.by_repeat]
            if len({batch for batch, _ in measured}) < _FEWEST:
                continue
            line = _line(measured)
            what = f"{metric.rpartition('_')[0].replace('_', ' ')} of other batches"
            if line.worst_share > _CURVED:
                reason = f"a batch lies {line.worst_share:.0%} off the line through all of them"
                missing.append(
                    Abstention(what=f"{what}{others and f' with {others}'}", reason=reason)
                )
                continue
            rows[metric] += _of_line(
                line, [batch for batch, _ in measured], metric, others, confidence
            )
    return {name: pd.DataFrame(found) for name, found in rows.items() if found}, missing


def _by_others(axes: Mapping[str, Mapping[str, Value]]) -> dict[str, list[tuple[int, str]]]:
    """Return the batches and their runs, by the values of the other axes in words."""
    found: dict[str, list[tuple[int, str]]] = {}
    for run, choice in axes.items():
        if isinstance(batch := choice.get(_BATCH), int):
            others = in_words({key: value for key, value in choice.items() if key != _BATCH})
            found.setdefault(others, []).append((batch, run))
    return {others: sorted(runs) for others, runs in found.items()}


def _line(measured: Sequence[tuple[int, Metric]]) -> Line:
    """Return the line through the means of the batches, so that each of them counts once."""
    means = [sum(one.by_repeat.values()) / len(one.by_repeat) for _, one in measured]
    return fitted_line([batch for batch, _ in measured], means)


def _of_line(
    line: Line, batches: Sequence[int], metric: str, others: str, confidence: float
) -> Iterator[dict[str, Value]]:
    for batch in _not_run(batches):
        expected, margin = line.at(batch), line.margin(batch, confidence)
        if expected <= 0 or math.isnan(margin):
            continue
        unit = metric.rpartition("_")[2]
        yield {
            "with": others,
            "batch": batch,
            metric: expected,
            f"low_{unit}": max(0.0, expected - margin),
            f"high_{unit}": expected + margin,
        }


def _not_run(batches: Sequence[int]) -> list[int]:
    """Return a batch between each two that were run, and twice the largest."""
    ordered = sorted(set(batches))
    middles = [(low + high) // 2 for low, high in itertools.pairwise(ordered)]
    return sorted({*middles, 2 * ordered[-1]} - {*ordered})
