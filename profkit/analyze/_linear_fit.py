"""Straight lines through few points, with prediction intervals for the next one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.analyze.shared.uncertainty import student_quantile

LEAST_POINTS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The line of least squares through points at two x or more."""

    intercept: float
    slope: float
    points: int
    mean: float
    """Mean of x."""

    spread: float
    """Sum of the squared distances of x from its mean."""

    error: float
    """Standard deviation of the points around the line; NaN for two, which lie on it."""

    worst_share: float
    """Largest distance of a point from the line, as a share of the line there."""

    def at(self, x: float) -> float:
        """Return the y of the line."""
        return self.intercept + self.slope * x

    def margin(self, x: float, confidence: float) -> float:
        """Return half the width of the prediction interval of one more point; NaN if not known."""
        if math.isnan(self.error):
            return math.nan
        far = (x - self.mean) ** 2 / self.spread
        factor = student_quantile(confidence, self.points - LEAST_POINTS)
        return factor * self.error * math.sqrt(1 + 1 / self.points + far)


def fitted_line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """Return the line through points; ValueError if all have one x."""
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
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
    """Return the largest whole x whose y is at most `limit`; 0 if there is none.

    With a `confidence`, y is that of the upper end of the prediction interval, or with
    ``side=-1`` of the lower one, which may never reach the limit: -1 then. The line must rise up
    to there.
    """

    def fits(x: int) -> bool:
        margin = 0.0 if math.isnan(confidence) else side * line.margin(x, confidence)
        return line.at(x) + margin <= limit

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
