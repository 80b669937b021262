"""Peaks of memory of the runs of a sweep, and how they grow along one of its axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profkit.analyze._linear_fit import STRAIGHT, Curve, fitted_above, highest_of_two
from profkit.core.result import Result

HELD = "memory_model"
SOURCES = {
    "memory_peak": ("peak_bytes", "peak of the allocator's history"),
    "steps": ("peak_memory_bytes", "peak of the worst rank without a profiler"),
    HELD: ("held_bytes", "most held at the points of a step that were looked at"),
}
"""Analyses that know a peak: their metric, and what that is."""

_MOST = 1 << 40
_ROUNDING = 1e-12
_WHOLE = ""

Phases = Mapping[str, float]
"""Most bytes that were allocated in each phase of a step; the largest of them is the peak."""


def peaks_by_run(
    results: Mapping[str, Mapping[str, Result] | None],
) -> tuple[str, dict[str, Phases]]:
    """Return the analysis that has the peaks of most runs, and these by run.

    `results` are those of `SOURCES`, by run; None for an analysis that was not made.
    """
    found = {
        name: {
            run: phases
            for run, result in (results.get(name) or {}).items()
            if (phases := _phases(result, metric))
        }
        for name, (metric, _) in SOURCES.items()
    }
    best = max(found, key=lambda name: len(found[name]))
    return best, found[best]


def _phases(result: Result, metric: str) -> Phases:
    if "phases" in result.tables:
        return {
            str(row["phase"]): float(str(row["peak_bytes"]))
            for row in result.tables["phases"].records()
        }
    return {_WHOLE: result.metrics[metric].value} if metric in result.metrics else {}


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakCurve:
    """The peak of a step against x: the highest of the curves of its phases."""

    curves: tuple[Curve, ...]

    def highest(self, x: float) -> Curve:
        """Return the curve of the phase that has the peak."""
        return max(self.curves, key=lambda curve: curve.at(x))

    def at(self, x: float) -> float:
        """Return the peak in bytes."""
        return self.highest(x).at(x)

    def margin(self, x: float, confidence: float) -> float:
        """Return half the width of the prediction interval of one more peak; NaN if not known."""
        return self.highest(x).margin(x, confidence)

    def largest_below(self, limit: float, confidence: float = math.nan, side: int = 1) -> int:
        """Return the largest whole x whose peak is at most `limit`; 0 if there is none.

        With a `confidence`, the peak is the upper end of the prediction interval, or with
        ``side=-1`` the lower one, which may never reach the limit: -1 then. The curve must rise
        up to there.
        """

        def fits(x: int) -> bool:
            margin = 0.0 if math.isnan(confidence) else side * self.margin(x, confidence)
            return self.at(x) + margin <= limit * (1 + _ROUNDING)

        low, high = 0, 1
        while fits(high) and high < _MOST:
            low, high = high, high * 2
        if high >= _MOST:
            return -1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


def fitted_peak(
    xs: Sequence[float], peaks: Sequence[Phases], powers: Sequence[int] = STRAIGHT
) -> PeakCurve:
    """Return the peak of runs at `xs`; ValueError if they are at fewer places than `powers`.

    Each phase has a curve of its own where all runs have the same ones: the optimizer's step does
    not grow with the batch, and has the peak of small ones.
    """
    shared = set.intersection(*(set(phases) for phases in peaks))
    # A phase that has no peak need not be in every run.
    series = [[phases[phase] for phases in peaks] for phase in sorted(shared)]
    if not all(max(phases, key=phases.__getitem__) in shared for phases in peaks):
        series = [[*map(_highest, peaks)]]
    if tuple(powers) == STRAIGHT:
        return PeakCurve(curves=tuple(line for ys in series for line in highest_of_two(xs, ys)))
    return PeakCurve(curves=tuple(fitted_above(xs, ys, powers) for ys in series))


def _highest(phases: Phases) -> float:
    return max(phases.values())
