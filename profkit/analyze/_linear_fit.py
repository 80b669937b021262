"""Curves of least squares through few points, with prediction intervals for the next one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared.uncertainty import student_quantile

Values = Sequence[float] | NDArray[np.float64]

STRAIGHT = (0, 1)
BENT = (0, 1, 2)
INVERSE = (0, -1)
_ABOVE_SHARE = 0.01
_FAR_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The sum of powers of x that is nearest to points, at as many x as there are powers or more.

    Memory and time of a step are linear in the batch, quadratic in the length of sequences, and
    linear in the inverse of the number of ranks, which divide what is sharded.
    """

    powers: tuple[int, ...]
    factors: tuple[float, ...]
    """Of each power of x."""

    xs: tuple[float, ...]
    """Where the points are."""

    scale: float
    """What x is divided by, so that its powers are of like size."""

    inverse: NDArray[np.float64]
    """Inverse of the normal matrix, of scaled x."""

    error: float
    """Standard deviation of the points around the curve; NaN where it goes through all of them."""

    worst_share: float
    """Largest distance of a point from the curve, as a share of the curve there."""

    def at(self, x: float) -> float:
        """Return the y of the curve."""
        terms = zip(self.factors, self.powers, strict=True)
        return sum(factor * x**power for factor, power in terms)

    def margin(self, x: float, confidence: float) -> float:
        """Return half the width of the prediction interval of one more point; NaN if not known."""
        if math.isnan(self.error):
            return math.nan
        place = (x / self.scale) ** np.array(self.powers, np.float64)
        freedom = len(self.xs) - len(self.powers)
        spread = math.sqrt(1 + float(place @ self.inverse @ place))
        return student_quantile(confidence, freedom) * self.error * spread


def fitted(xs: Values, ys: Values, powers: Sequence[int] = STRAIGHT) -> Curve:
    """Return the curve through points; ValueError if they are at fewer x than it has powers."""
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    if len(np.unique(x)) < len(powers):
        raise ValueError("a curve needs points at as many places as it has powers")
    scale = float(np.abs(x).max())
    terms = (x[:, None] / scale) ** np.array(powers, np.float64)
    inverse = np.asarray(np.linalg.inv(terms.T @ terms), np.float64)
    factors = inverse @ terms.T @ y
    curve = terms @ factors
    freedom = len(x) - len(powers)
    error = math.sqrt(float(((y - curve) ** 2).sum()) / freedom) if freedom else math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.abs(y - curve) / np.abs(curve)
    return Curve(
        powers=tuple(powers),
        factors=tuple(
            float(factor) / scale**power for factor, power in zip(factors, powers, strict=True)
        ),
        xs=tuple(float(at) for at in x),
        scale=scale,
        inverse=inverse,
        error=error,
        worst_share=float(np.nan_to_num(shares, nan=0.0).max()),
    )


def fitted_above(xs: Values, ys: Values, powers: Sequence[int] = STRAIGHT) -> Curve:
    """Return the curve through the points of larger x, without smaller ones that lie above it.

    Below some x, something else takes most: the optimizer's step of memory, or launches of time.
    What is the largest of several lines bends upwards, so that such points lie above the line.
    """
    order = np.argsort(np.asarray(xs, np.float64), kind="stable")
    x, y = np.asarray(xs, np.float64)[order], np.asarray(ys, np.float64)[order]
    # What goes through all points that are left would hide a bend.
    while len(np.unique(x[x > x[0]])) > len(powers):
        above = x > x[0]
        rest = fitted(x[above], y[above], powers)
        if y[~above].mean() <= rest.at(float(x[0])) * (1 + _ABOVE_SHARE):
            break
        x, y = x[above], y[above]
    return fitted(x, y, powers)


def highest_of_two(xs: Values, ys: Values) -> tuple[Curve, ...]:
    """Return the straight line through points, or two of which the higher one goes through all.

    A peak of memory is the largest of several that each grow by a straight line. Two are taken
    where one is somewhat off, the second is steeper, and each has two values of x or more. Their
    intervals are as wide as that of the one, as nothing tells how far off lines through two are;
    what is far off may be bent everywhere.
    """
    one = fitted_above(xs, ys)
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    places = np.unique(x)
    is_bent = _ABOVE_SHARE < one.worst_share <= _FAR_SHARE
    for last in places[1:-2] if is_bent else ():
        low, high = (fitted(x[side], y[side]) for side in (x <= last, x > last))
        at = np.array([max(low.at(place), high.at(place)) for place in x])
        if high.factors[1] > low.factors[1] and np.abs(y - at).max() <= _ABOVE_SHARE * y.max():
            return tuple(replace(one, factors=line.factors) for line in (low, high))
    return (one,)
