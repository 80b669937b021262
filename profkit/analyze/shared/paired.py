"""Paired comparison: by which factor two runs differ, repeat by repeat, and what that supports.

The repeats of two runs are captured in pairs, so that what changes on the machine meets both
alike. All inference is on the logarithms of the pairs' ratios. What takes arrays works along their
last axis, so that thousands of studies can be simulated with the same code.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared.uncertainty import student_quantile, student_tail
from profkit.core.result import Interval

Logs = NDArray[np.float64]

FEWEST_PAIRS = 6
"""Pairs that a statement at 95 % takes: with fewer, no exact test gets below a p-value of 5 %."""

TOO_FEW = (
    f"a statement at 95 % takes {FEWEST_PAIRS} repeats or more of both: repeats={FEWEST_PAIRS}"
)
"""Why nothing is said of runs with fewer repeats."""

MOST_PAIRS = 20
"""Pairs after which no more are made, however wide the interval is."""

PAIRS_AT_ONCE = 3
"""Pairs between two looks at the interval: each start of the workflow takes seconds."""

BAND = 0.01
"""Change that does not matter, as a share."""

STOPPED_CONFIDENCE = 0.97
"""Confidence of the interval, to be right in 95 %, where `narrow_enough` ends the comparison: it
ends sooner where the spread happens to look small (`benchmarks/verdicts.py`)."""

DIFFER = "the pairs differ too much for an interval"
"""Why pairs have no interval."""

_BOOTSTRAP_FROM = 10
_DRIFT_LEVEL = 0.01
_MOST_NEEDED = 1000
# Logarithms of equal ratios differ by this much, from rounding.
_ROUNDING = 1e-12


class Outcome(StrEnum):
    """What a comparison supports."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "no difference that matters"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """The factor between two numbers, over the repeats that both have."""

    ratio: float
    """Geometric mean over the repeats; 1 is no difference."""

    interval: Interval | None
    """Confidence interval of the ratio; None for a single repeat, which has no spread, and for
    repeats that differ so much that it would say nothing."""

    p_value: float
    """Probability of a ratio at least as far from 1 if there were no difference; 1 if unknown."""

    repeats: int
    """Repeats that both have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The outcome of one comparison, and what it rests on."""

    outcome: Outcome
    ratio: Ratio
    reason: str = ""
    """Why the outcome is void or inconclusive; empty for the others."""

    more_pairs: int | None = None
    """About how many more pairs would decide; 0 if no number of them would, None if unknown."""

    doubts: tuple[str, ...] = ()
    """Checks that disagree with the interval on whether there is a difference."""


def judged(
    these: Mapping[int, float],
    others: Mapping[int, float],
    *,
    band: float = BAND,
    drift: float = BAND,
    confidence: float = 0.95,
) -> Judgement | None:
    """Judge the factor from `others` to `these` over the repeats of both; None if there is none.

    The values of a repeat were captured as a pair; repeats are numbered in the order of time. A
    change from the first to the last of them by more than `drift` and `band` makes it void.
    """
    ratio = compared(these, others, confidence=confidence)
    if ratio is None:
        return None
    logs, levels = _logs_and_levels(these, others)
    if ratio.interval is None:
        is_single = ratio.repeats <= 1
        return Judgement(
            outcome=Outcome.INCONCLUSIVE,
            ratio=ratio,
            reason="one pair does not say how much repeats differ" if is_single else DIFFER,
            more_pairs=FEWEST_PAIRS - 1 if is_single else _more_pairs(logs, band, confidence),
        )
    drift = max(drift, band)
    outcome = Outcome(str(outcomes(logs, levels, band=band, drift=drift, confidence=confidence)))
    if outcome is Outcome.VOID:
        return Judgement(outcome=outcome, ratio=ratio, reason=_course(logs, levels, drift))
    doubts = tuple(_doubts(logs, ratio.interval, confidence))
    if outcome is not Outcome.INCONCLUSIVE:
        return Judgement(outcome=outcome, ratio=ratio, doubts=doubts)
    more = _more_pairs(logs, band, confidence)
    if len(logs) < FEWEST_PAIRS:
        reason = f"a statement at 95 % takes {FEWEST_PAIRS} pairs or more"
    else:
        reason = f"the interval reaches across a change of {band:.1%}"
    return Judgement(outcome=outcome, ratio=ratio, reason=reason, more_pairs=more, doubts=doubts)


def outcome_of(
    these: Mapping[int, float],
    others: Mapping[int, float],
    *,
    band: float = BAND,
    confidence: float = 0.95,
) -> Outcome:
    """Return the outcome alone, which takes a hundredth of the time of `judged`."""
    logs, levels = _logs_and_levels(these, others)
    if len(logs) < FEWEST_PAIRS:
        return Outcome.INCONCLUSIVE
    return Outcome(str(outcomes(logs, levels, band=band, confidence=confidence)))


def outcomes(
    logs: Logs, levels: Logs, *, band: float = BAND, drift: float = BAND, confidence: float = 0.95
) -> NDArray[np.str_]:
    """Return the `Outcome` of each study, from the log ratios and mean logs of its pairs."""
    low, high = bounds(logs, confidence)
    edge = math.log1p(band)
    found = np.select(
        [low > edge, high < -edge, (low >= -edge) & (high <= edge)],
        [Outcome.HIGHER, Outcome.LOWER, Outcome.SAME],
        Outcome.INCONCLUSIVE,
    )
    if logs.shape[-1] < FEWEST_PAIRS:
        return np.full(found.shape, str(Outcome.INCONCLUSIVE))
    moved = max(drift, band)
    return np.where(drifting(logs, moved) | drifting(levels, moved), Outcome.VOID, found)


def bounds(logs: Logs, confidence: float = 0.95) -> tuple[Logs, Logs]:
    """Return the ends of the interval of the mean: Student's t."""
    middle, half = logs.mean(axis=-1), half_width(logs, confidence)
    return middle - half, middle + half


def half_width(logs: Logs, confidence: float = 0.95) -> Logs:
    """Return half the width of the interval of the mean."""
    count = logs.shape[-1]
    width: Logs = student_quantile(confidence, count - 1) * _spread(logs) / math.sqrt(count)
    return width


def narrow_enough(
    logs: Logs, *, band: float = BAND, confidence: float = STOPPED_CONFIDENCE
) -> NDArray[np.bool_]:
    """Say whether no more pairs are to be made: the interval is as wide as the band, or narrower.

    Only the width decides. To stop where a difference is seen would find one in any noise.
    """
    narrow: NDArray[np.bool_] = half_width(logs, confidence) <= math.log1p(band) / 2
    return narrow


def drifting(rounds: Logs, least_change: float) -> NDArray[np.bool_]:
    """Say whether values rise or fall over the rounds, by more than a change.

    From first to last; by Spearman's correlation with the number of the round, at a level of 1 %.
    """
    t = student_quantile(1 - _DRIFT_LEVEL, rounds.shape[-1] - 2)
    least = t / math.sqrt(rounds.shape[-1] - 2 + t * t)
    moved: NDArray[np.bool_] = np.abs(_change(rounds)) > math.log1p(least_change)
    return moved & (np.abs(order_correlation(rounds)) >= least - _ROUNDING)


def order_correlation(rounds: Logs) -> Logs:
    """Return Spearman's correlation of values with the number of their round; 0 if all are equal.

    The ranks of values that are equal are their mean rank.
    """
    import pandas as pd  # noqa: PLC0415 - mistakes in a comparison's words do not wait for it

    rows = pd.DataFrame(rounds.reshape(-1, rounds.shape[-1]))
    ranks = rows.rank(axis="columns").to_numpy().reshape(rounds.shape)
    ranks = ranks - ranks.mean(axis=-1, keepdims=True)
    times = _times(rounds)
    scale = np.sqrt((ranks**2).sum(axis=-1) * (times**2).sum())
    correlation: Logs = np.divide(ranks @ times, scale, out=np.zeros_like(scale), where=scale > 0)
    return correlation


def sign_flips(logs: Logs) -> Logs:
    """Return the p-value of no difference: the exact permutation test over the signs of all pairs.

    Where the order of each pair was drawn by a coin, it holds for any noise.
    """
    sums = np.abs(logs[..., :1])
    for index in range(1, logs.shape[-1]):
        value = logs[..., index : index + 1]
        sums = np.concatenate([sums + value, sums - value], axis=-1)
    # As far as the sum that was seen, but for rounding.
    seen = np.abs(logs.sum(axis=-1, keepdims=True)) * (1 - 1e-9)
    p_values: Logs = (np.abs(sums) >= seen).mean(axis=-1)
    return p_values


def over_repeats(values: Mapping[int, float], *, confidence: float = 0.95) -> Ratio:
    """Compare ratios, one for each repeat, with 1: Student's t of their logarithms."""
    logs = np.log(np.array(list(values.values())))
    mean, count = float(logs.mean()), len(logs)
    if count <= 1:
        return Ratio(ratio=math.exp(mean), interval=None, p_value=1.0, repeats=count)
    low, high = (math.exp(max(-700.0, min(float(end), 700.0))) for end in bounds(logs, confidence))
    interval = Interval(low=low, high=high, confidence=confidence)
    return Ratio(
        ratio=math.exp(mean),
        interval=None if interval.says_nothing else interval,
        p_value=student_tail(_standard_errors(logs), count - 1),
        repeats=count,
    )


def no_interval(repeats: int) -> str:
    """Return why a number over so many repeats has no interval, and what to do."""
    if repeats <= 1:
        return "one repeat does not say how much repeats differ: set repeats=3 or more"
    return f"inconclusive, {repeats} repeats differ too much: set repeats={FEWEST_PAIRS} or more"


def compared(
    these: Mapping[int, float], others: Mapping[int, float], *, confidence: float = 0.95
) -> Ratio | None:
    """Compare two numbers by their values in the repeats that both have; None if there is none.

    Repeats of all runs are taken in turn, so drift from repeat to repeat affects both alike and
    cancels in the pairs.
    """
    ratios = {repeat: these[repeat] / others[repeat] for repeat in _shared(these, others)}
    return over_repeats(ratios, confidence=confidence) if ratios else None


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, which bound the family-wise error rate.

    Under any dependence, the probability of reporting any difference that is not there stays below
    the level (Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    result, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        result[index] = largest
    return result


def discovered(samples: Sequence[Sequence[float]], level: float = 0.05) -> list[bool]:
    """Say of which samples the mean is not 0, of those inside a difference that is known.

    At most a share of `level` of them is wrong on average (Benjamini and Hochberg, 1995).
    """
    arrays = [np.array(sample) for sample in samples]
    p_values = [student_tail(_standard_errors(array), len(array) - 1) for array in arrays]
    rising = np.sort(p_values)
    fitting = rising[rising * len(rising) <= level * np.arange(1, len(rising) + 1)]
    largest = fitting.max(initial=-1.0)
    return [bool(p_value <= largest) for p_value in p_values]


def _shared(these: Mapping[int, float], others: Mapping[int, float]) -> list[int]:
    """Return the repeats that both have, in their order."""
    return sorted(repeat for repeat in these if these[repeat] > 0 and others.get(repeat, 0) > 0)


def _logs_and_levels(these: Mapping[int, float], others: Mapping[int, float]) -> tuple[Logs, Logs]:
    """Return the log ratio and the mean log of each pair."""
    shared = _shared(these, others)
    mine, theirs = (np.log([values[repeat] for repeat in shared]) for values in (these, others))
    return mine - theirs, (mine + theirs) / 2


def _spread(logs: Logs) -> Logs:
    """Return the standard deviation; 0 where values differ by no more than rounding."""
    spread = logs.std(axis=-1, ddof=1)
    kept: Logs = np.where(spread > _ROUNDING, spread, 0.0)
    return kept


def _standard_errors(logs: Logs) -> float:
    """Return how far the mean is from 0; infinitely far without any spread, unless it is 0."""
    mean, error = float(logs.mean()), float(_spread(logs)) / math.sqrt(len(logs))
    if error > 0:
        return mean / error
    return math.copysign(math.inf, mean) if abs(mean) > _ROUNDING else 0.0


def _times(rounds: Logs) -> Logs:
    """Return the numbers of the rounds, around 0."""
    times: Logs = np.arange(rounds.shape[-1]) - (rounds.shape[-1] - 1) / 2
    return times


def _change(rounds: Logs) -> Logs:
    """Return the change from the first round to the last, along the straight line of best fit."""
    times = _times(rounds)
    change: Logs = rounds @ times / (times**2).sum() * (len(times) - 1)
    return change


def _course(logs: Logs, levels: Logs, drift: float) -> str:
    """Return what drifted over the rounds, in words."""
    kind, rounds = ("difference", logs) if drifting(logs, drift) else ("level of both runs", levels)
    return (
        f"the {kind} drifts by {math.expm1(float(_change(rounds))):+.1%} over the {len(rounds)} "
        f"pairs (rank correlation with time {float(order_correlation(rounds)):.2f})"
    )


def _doubts(logs: Logs, trusted: Interval, confidence: float) -> Iterator[str]:
    """Yield the checks that disagree with the interval on whether there is a difference."""
    differs = not trusted.low <= 1 <= trusted.high
    if FEWEST_PAIRS <= len(logs) <= MOST_PAIRS:
        p_value = float(sign_flips(logs))
        if differs != (p_value <= 1 - confidence):
            says = "no difference" if differs else "a difference"
            yield f"the exact permutation test sees {says} (p = {p_value:.2g})"
    if len(logs) >= _BOOTSTRAP_FROM and float(_spread(logs)) > 0:
        low, high = bootstrap_bounds(logs, confidence)
        if differs != (not low <= 0 <= high):
            ends = f"{math.expm1(low):+.1%} to {math.expm1(high):+.1%}"
            yield f"the bootstrap (BCa) has the interval {ends}"


def bootstrap_bounds(logs: Logs, confidence: float = 0.95) -> tuple[float, float]:
    """Return the ends of the mean's interval by the bootstrap, bias-corrected and accelerated."""
    from scipy.stats import bootstrap  # noqa: PLC0415 - loads longer than most jobs last

    # The seed makes the answer on the same repeats the same every time.
    made = bootstrap(
        (logs,), np.mean, confidence_level=confidence, method="BCa", rng=np.random.default_rng(0)
    )
    return float(made.confidence_interval.low), float(made.confidence_interval.high)


def more_repeats(
    these: Mapping[int, float], others: Mapping[int, float], *, confidence: float = 0.95
) -> int:
    """Return about how many more repeats of both would decide; 0 if no number of them would."""
    logs, _ = _logs_and_levels(these, others)
    return FEWEST_PAIRS - 1 if len(logs) == 1 else _more_pairs(logs, BAND, confidence)


def _more_pairs(logs: Logs, band: float, confidence: float) -> int:
    """Return about how many more pairs would bring the interval to one side of the band's edges.

    0 if more than a thousand: the difference is as large as the one that matters.
    """
    distance = abs(abs(float(logs.mean())) - math.log1p(band))
    needed = max(FEWEST_PAIRS, pairs_for(float(_spread(logs)), distance, confidence))
    return max(1, needed - len(logs)) if needed <= _MOST_NEEDED else 0


def pairs_for(spread: float, half: float, confidence: float = 0.95) -> int:
    """Return how many pairs of this `spread` give an interval of half the width `half` or less."""
    if spread > half * _MOST_NEEDED:
        return _MOST_NEEDED + 1
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    count = max(2, math.ceil((normal * spread / half) ** 2)) if spread else 2
    # Student's t asks for some more than the normal distribution.
    while student_quantile(confidence, count - 1) * spread > half * math.sqrt(count):
        count += 1
    return count
