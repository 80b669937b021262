"""Change points: after which of the measurements of a history its level became another.

E-divisive (Matteson and James, Journal of the American Statistical Association 109, 2014) finds
where a series may be cut; Student's t decides, as in Hunter (Fleming et al., ICPE 2023), so that
the same series has the same answer every time. Series that are too short for it have a fence: a
change is out of the ordinary beyond the third quartile and 3 interquartile ranges of the earlier
ones. All on logarithms.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared.paired import BAND
from profkit.analyze.shared.uncertainty import student_tail

Logs = NDArray[np.float64]

FENCED_BELOW = 12
"""Measurements from which on a series is cut; shorter ones have the fence."""

FEWEST = 6
"""Measurements below which nothing is known of what is ordinary."""

_LEVEL = 1e-3
_SHORTEST = 2
_FENCE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoint:
    """A change of the level."""

    index: int
    """The first measurement on the new level."""

    before: float
    """Level before it: a mean of logarithms."""

    after: float
    """Level from it on."""

    p_value: float | None
    """Student's t of the measurements on both sides; None where the fence decided."""

    @property
    def change(self) -> float:
        """Logarithm of the new level over the old one."""
        return self.after - self.before


def change_points(logs: Logs, *, band: float = BAND) -> list[ChangePoint]:
    """Return the changes of a series that are larger than `band`, in its order."""
    if len(logs) < FENCED_BELOW:
        return list(_beyond_fence(logs, band))
    cuts = sorted(_cuts(logs, 0))
    while cuts:
        ends = [0, *cuts, len(logs)]
        found = [_tested(logs, *ends[number : number + 3]) for number in range(len(cuts))]
        weak = [one for one in found if not _counts(one, band)]
        if not weak:
            return found
        cuts.remove(max(weak, key=lambda one: one.p_value or 0.0).index)
    return []


def _beyond_fence(logs: Logs, band: float) -> Iterator[ChangePoint]:
    """Yield the changes from one measurement to the next beyond those that came before."""
    ordinary: list[float] = []
    for index, (before, after) in enumerate(itertools.pairwise(logs.tolist()), start=1):
        size = abs(after - before)
        if len(ordinary) >= FEWEST - _SHORTEST and size > max(_fence(ordinary), math.log1p(band)):
            yield ChangePoint(index=index, before=before, after=after, p_value=None)
        else:
            ordinary.append(size)


def _fence(sizes: list[float]) -> float:
    first, third = np.quantile(sizes, [0.25, 0.75])
    return float(third + _FENCE * (third - first))


def _cuts(logs: Logs, start: int) -> Iterator[int]:
    """Yield where the series may be cut, as positions from `start` on."""
    if len(logs) < 2 * _SHORTEST:
        return
    cut, end = _most_divergent(logs)
    if (_tested(logs, 0, cut, end).p_value or 0.0) > _LEVEL:
        return
    yield start + cut
    yield from _cuts(logs[:cut], start)
    yield from _cuts(logs[cut:], start + cut)


def _most_divergent(logs: Logs) -> tuple[int, int]:
    """Return the cut, and the end of the part behind it, with the largest energy distance.

    The end is free, as the level may return: all pairs of cut and end are compared at once, from
    the sums of all distances up to each pair of positions.
    """
    count = len(logs)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = np.abs(logs[:, None] - logs).cumsum(axis=0).cumsum(axis=1)
    whole = np.diag(sums)
    cut, end = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    before, after = cut, end - cut
    between = sums[cut, end] - whole[cut]
    within_after = whole[end] - 2 * sums[cut, end] + whole[cut]
    valid = (before >= _SHORTEST) & (after >= _SHORTEST)
    left, right = np.where(valid, before, 2), np.where(valid, after, 2)
    distance = (
        2 * between / (left * right)
        - whole[cut] / (left * (left - 1))
        - within_after / (right * (right - 1))
    )
    energy = np.where(valid, distance * left * right / (left + right), -np.inf)
    found = np.unravel_index(int(energy.argmax()), energy.shape)
    return int(found[0]), int(found[1])


def _tested(logs: Logs, start: int, cut: int, end: int) -> ChangePoint:
    """Return the change at `cut` from what lies before it to what lies after it."""
    before, after = logs[start:cut], logs[cut:end]
    levels = float(before.mean()), float(after.mean())
    change = levels[1] - levels[0]
    freedom = len(before) + len(after) - 2
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    error = math.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))
    score = change / error if error else math.copysign(math.inf, change) if change else 0.0
    p_value = student_tail(score, freedom)
    return ChangePoint(index=cut, before=levels[0], after=levels[1], p_value=p_value)


def _counts(found: ChangePoint, band: float) -> bool:
    return (found.p_value or 0.0) <= _LEVEL and abs(found.change) > math.log1p(band)
