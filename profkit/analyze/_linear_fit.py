"""Straight lines through few points, and how far from them the next one may lie."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.analyze.shared.uncertainty import student_quantile

LEAST_POINTS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The line of least squares through points at two places or more."""

    intercept: float
    slope: float
    points: int
    mean: float
    """Mean of the places."""

    spread: float
    """Sum of the squares of the places' distances from their mean."""

    error: float
    """Standard deviation of the points around the line; NaN for two, which lie on it."""

    worst_share: float
    """Largest distance of a point from the line, as a share of the line there."""

    def at(self, place: float) -> float:
        """Return the height of the line."""
        return self.intercept + self.slope * place

    def margin(self, place: float, confidence: float) -> float:
        """Return half the width of the prediction interval of one more point; NaN if not known."""
        if math.isnan(self.error):
            return math.nan
        far = (place - self.mean) ** 2 / self.spread
        factor = student_quantile(confidence, self.points - LEAST_POINTS)
        return factor * self.error * math.sqrt(1 + 1 / self.points + far)


def through(places: Sequence[float], heights: Sequence[float]) -> Line:
    """Return the line through points; ValueError if all are at one place."""
    x, y = np.asarray(places, np.float64), np.asarray(heights, np.float64)
    spread = float(((x - x.mean()) ** 2).sum())
    if spread == 0:
        raise ValueError("a line needs points at two places")
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    intercept = float(y.mean() - slope * x.mean())
    line = intercept + slope * x
    freedom = len(x) - LEAST_POINTS
    error = math.sqrt(float(((y - line) ** 2).sum()) / freedom) if freedom else math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.abs(y - line) / np.abs(line)
    return Line(
        intercept=intercept,
        slope=slope,
        points=len(x),
        mean=float(x.mean()),
        spread=spread,
        error=error,
        worst_share=float(np.nan_to_num(shares, nan=0.0).max()),
    )


def largest_below(line: Line, limit: float, confidence: float = math.nan, side: int = 1) -> int:
    """Return the largest whole place whose height is at most `limit`; 0 if there is none.

    With a `confidence`, the height is that of the upper end of the prediction interval, or with
    ``side=-1`` of the lower one, which may never reach the limit: -1 then. The line must rise, as
    far as it is asked.
    """

    def fits(place: int) -> bool:
        margin = 0.0 if math.isnan(confidence) else side * line.margin(place, confidence)
        return line.at(place) + margin <= limit

    low, high = 0, 1
    while fits(high) and high < _MOST:
        low, high = high, high * 2
    if high >= _MOST:
        return -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


_MOST = 1 << 40
