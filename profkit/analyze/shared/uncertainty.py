"""Uncertainty of measured numbers: confidence intervals, and whether repeats differ.

Steps of one repeat share its process, its memory layout and its moment, so they are no
independent observations of a configuration: repeats are. All inference here uses the spread over
repeats, and logarithms, because times differ by factors.
"""

import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.core.result import Interval

Times = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Takes an array and ``axis``, as ``numpy.median`` does."""

# Numbers drawn at once; bounds the memory of resampling to some tens of megabytes.
_CELLS = 1 << 21
_PRECISION = 1e-14
_BLOCKS = 3


def resampled(repeats: Sequence[Times], statistic: Statistic, draws: int, seed: int = 0) -> Times:
    """Return `statistic` of `draws` hierarchical bootstrap samples: repeats, then steps in them.

    Each sample has as many repeats as there are, and of each as many steps as the longest has
    (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8).
    """
    random = np.random.default_rng(seed)
    counts = np.array([len(steps) for steps in repeats])
    padded = np.full((len(repeats), counts.max()), np.nan)
    for row, steps in zip(padded, repeats, strict=True):
        row[: len(steps)] = steps

    def sample(number: int) -> Times:
        repeat = random.integers(len(repeats), size=(number, len(repeats), 1))
        step = (random.random((number, *padded.shape)) * counts[repeat]).astype(np.intp)
        return np.asarray(statistic(padded[repeat, step].reshape(number, -1), axis=1))

    at_once = max(1, _CELLS // padded.size)
    parts = [sample(min(at_once, draws - done)) for done in range(0, draws, at_once)]
    return np.concatenate(parts)


def interval(
    value: float,
    repeats: Sequence[Times],
    statistic: Statistic = np.median,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
) -> Interval | None:
    """Return the interval of `value`, a `statistic` of all steps.

    None for one repeat, and where repeats differ so much that it would say nothing.

    Percentiles of a bootstrap over three repeats are far too close together, as it never draws
    unseen values. So the bootstrap gives the standard error, corrected for the number of
    repeats, and Student's t for that number gives the width.
    """
    count = len(repeats)
    if count <= 1 or value <= 0 or min(float(steps.min()) for steps in repeats) <= 0:
        return None
    spread = float(np.log(resampled(repeats, statistic, draws)).std())
    error = spread * math.sqrt(count / (count - 1))
    found = _around(value, error, count - 1, confidence)
    return None if found.says_nothing else found


def unequal_repeats(repeats: Sequence[Times]) -> float | None:
    """Return the p-value of all `repeats` having the same step time; None if it cannot be known.

    One-way analysis of variance of the logarithms of block medians, three blocks of consecutive
    steps to a repeat: consecutive steps are correlated, blocks hardly.
    """
    if len(repeats) <= 1 or min(len(steps) for steps in repeats) < 2 * _BLOCKS:
        return None
    blocks = np.array(
        [[np.median(part) for part in np.array_split(steps, _BLOCKS)] for steps in repeats]
    )
    if blocks.min() <= 0:
        return None
    logs = np.log(blocks)
    between = float(logs.mean(axis=1).var(ddof=1)) * _BLOCKS
    within = float(logs.var(axis=1, ddof=1).mean())
    freedom = len(repeats) - 1, len(repeats) * (_BLOCKS - 1)
    return fisher_tail(_over(between, within), *freedom)


def _around(value: float, error: float, freedom: int, confidence: float) -> Interval:
    factor = math.exp(min(student_quantile(confidence, freedom) * error, 700.0))
    return Interval(low=value / factor, high=value * factor, confidence=confidence)


def _over(difference: float, error: float) -> float:
    """Divide; without any spread every difference is infinitely many standard errors."""
    if error > 0:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def student_tail(t: float, freedom: float) -> float:
    """Return the probability that Student's t is at least as far from 0 as `t`."""
    return 0.0 if math.isinf(t) else _beta_share(freedom / 2, 0.5, freedom / (freedom + t * t))


@functools.cache
def student_quantile(confidence: float, freedom: float) -> float:
    """Return the t within which Student's distribution has the share `confidence`."""
    half = (freedom + 1) / 2
    scale = math.exp(math.lgamma(half) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    # Newton's steps grow from the quantile of the normal distribution, which is smaller, to this.
    t = NormalDist().inv_cdf((1 + confidence) / 2)
    while True:
        density = 2 * scale * math.exp(-half * math.log1p(t * t / freedom))
        step = (student_tail(t, freedom) - (1 - confidence)) / density
        t += step
        if step <= t * 1e-12:
            return t


def fisher_tail(ratio: float, between: float, within: float) -> float:
    """Return the probability that Fisher's F is at least `ratio`, with these degrees of freedom."""
    if math.isinf(ratio):
        return 0.0
    return _beta_share(within / 2, between / 2, within / (within + between * ratio))


def _beta_share(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction.

    NIST Digital Library of Mathematical Functions, 8.17.22, evaluated by Lentz's method.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        # The fraction converges fast on this side of the mean only.
        return 1 - _beta_share(b, a, 1 - x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    value, upper, lower = 1.0, 1.0, 0.0
    for index in range(1, 500):
        lower = 1 / (1 + _term(index, a, b, x) * lower)
        upper = 1 + _term(index, a, b, x) / upper
        value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION:
            break
    return front / value


def _term(index: int, a: float, b: float, x: float) -> float:
    """Return coefficient `index` of the continued fraction."""
    half, odd = divmod(index, 2)
    if odd:
        return -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
    return half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
