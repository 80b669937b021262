"""Bisection: at which of many revisions a number changed, by few comparisons that are noisy.

A comparison is a few pairs of two revisions. All of them together give each revision a
probability, with the size of the change and the variance of the noise integrated out; the next
comparison is the one whose answer is known least. No comparison decides anything alone, so one
that misleads costs others, not the answer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared.uncertainty import student_tail

CONFIDENCE = 0.995
"""Probability of a revision from which on the search ends."""

MOST_COMPARISONS = 40
"""Comparisons after which it ends without."""

_FIRST_PAIRS = 6
_FIRST_COMPARISONS = 6
_LEVEL = 1e-3
_PAIRS = (3, 12)
# Standard errors between no change and the change: a comparison then misleads in about 3 %.
_APART = 3.8
# Variance below which nothing is measured: that of 0.05 %.
_LEAST_VARIANCE = 0.0005**2

Compare = Callable[[int, int, int], Sequence[float]]
"""Returns the logarithms of the ratios of so many pairs of the revisions at two positions, the
later over the earlier; raises `RevisionFailed` if one of them cannot be measured."""

Progress = Callable[["Compared", int], None]
"""Is called with each comparison, and how many revisions may still be the one."""


class RevisionFailed(Exception):  # noqa: N818 - what happened to a revision, no defect
    """The revision at a position cannot be measured."""

    def __init__(self, position: int) -> None:
        super().__init__(f"position {position}")
        self.position = position


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A comparison of the revisions at two positions."""

    before: int
    after: int
    logs: tuple[float, ...]
    """Logarithm of the ratio of each pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Where the number changed, as far as that is known."""

    before: int
    """The last revision before the change that can be measured."""

    after: int
    """The first one with it; those in between cannot be measured."""

    probability: float
    """That it changed there, if it did at one revision; 0 if the two ends do not differ."""

    comparisons: tuple[Compared, ...]
    """All comparisons, in their order."""

    failed: tuple[int, ...]
    """Revisions that were tried and cannot be measured."""

    @property
    def is_sure(self) -> bool:
        """Whether the search came to its end."""
        return self.probability >= CONFIDENCE


def bisected(count: int, compare: Compare, progress: Progress | None = None) -> Answer:
    """Search positions 0, which is without the change, to `count`, which has it.

    The last comparison is that of the two revisions of the answer with one another. Raises
    `RevisionFailed` if an end cannot be measured.
    """
    search = _Search(positions=[*range(count + 1)], compare=compare, progress=progress)
    while not search.ends_differ():
        if len(search.comparisons) >= _FIRST_COMPARISONS:
            return search.answer(0, 0.0)
        search.measure(0, count, _FIRST_PAIRS * min(2, 1 + len(search.comparisons)))
    while True:
        probabilities = search.probabilities()
        top = int(probabilities.argmax())
        best = float(probabilities[top])
        if len(search.comparisons) >= MOST_COMPARISONS:
            return search.answer(top, best)
        if best >= CONFIDENCE and search.is_compared(top):
            return search.answer(top, best)
        before, after = search.most_open(probabilities, top)
        try:
            search.measure(before, after, search.pairs(top))
        except RevisionFailed as failure:
            if failure.position in (0, count):
                raise
            search.positions.remove(failure.position)
            search.failed.append(failure.position)


@dataclass(kw_only=True, slots=True)
class _Search:
    """What is known so far; interval i is that between `positions` i and i + 1."""

    positions: list[int]
    """Revisions that can be measured, or were not tried."""

    compare: Compare
    progress: Progress | None

    comparisons: list[Compared] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    def measure(self, before: int, after: int, pairs: int) -> None:
        logs = tuple(self.compare(before, after, pairs))
        compared = Compared(before=before, after=after, logs=logs)
        self.comparisons.append(compared)
        if self.progress is not None:
            self.progress(compared, self.left())

    def left(self) -> int:
        """Return how many revisions it takes to have the one that is searched for among them."""
        probabilities = self.probabilities()
        likely = np.argsort(-probabilities)
        count = int(np.searchsorted(probabilities[likely].cumsum(), CONFIDENCE)) + 1
        return int(np.diff(self.positions)[likely[:count]].sum())

    def ends_differ(self) -> bool:
        """Say whether the two ends, all that was compared yet, differ beyond chance."""
        logs = np.array([log for one in self.comparisons for log in one.logs])
        if len(logs) < _FIRST_PAIRS:
            return False
        variance = max(float(logs.var(ddof=1)), _LEAST_VARIANCE)
        score = float(logs.mean()) / math.sqrt(variance / len(logs))
        return student_tail(score, len(logs) - 1) < _LEVEL

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each interval."""
        ends = np.array(self.positions)
        counts = np.array([len(one.logs) for one in self.comparisons], np.float64)
        means = np.array([np.mean(one.logs) for one in self.comparisons])
        # Of each interval, whether it lies between the revisions of each comparison.
        within = np.array(
            [(one.before <= ends[:-1]) & (ends[1:] <= one.after) for one in self.comparisons]
        ).astype(np.float64)
        weights = counts @ within
        changes = (counts * means) @ within / weights
        misfit = counts @ (means[:, None] - within * changes) ** 2
        squares = self._squares() + misfit + _LEAST_VARIANCE
        logs = np.log(np.diff(ends)) - np.log(weights) / 2
        logs -= (counts.sum() - 1) / 2 * np.log(squares)
        shares = np.exp(logs - logs.max())
        result: NDArray[np.float64] = shares / shares.sum()
        return result

    def _squares(self) -> float:
        """Return the sum of the squares around the means of the comparisons."""
        return sum(float(np.var(one.logs)) * len(one.logs) for one in self.comparisons)

    def most_open(self, probabilities: NDArray[np.float64], top: int) -> tuple[int, int]:
        """Return the revisions whose comparison is nearest to be a coin, or confirms the answer."""
        confirming = (self.positions[top], self.positions[top + 1])
        if probabilities[top] >= CONFIDENCE:
            return confirming
        upto = dict(zip(self.positions[1:-1], probabilities.cumsum().tolist(), strict=False))
        chances = {confirming: float(probabilities[top])}
        chances |= {(0, position): chance for position, chance in upto.items()}
        return min(chances, key=lambda ends: abs(chances[ends] - 1 / 2))

    def pairs(self, top: int) -> int:
        """Return how many pairs tell the change from none, if it is where it seems to be."""
        ends = self.positions[top], self.positions[top + 1]
        found = [
            log
            for one in self.comparisons
            if one.before <= ends[0] and ends[1] <= one.after
            for log in one.logs
        ]
        freedom = sum(len(one.logs) - 1 for one in self.comparisons)
        variance = self._squares() / freedom + _LEAST_VARIANCE
        wanted = _APART**2 * variance / max(float(np.mean(found)) ** 2, _LEAST_VARIANCE)
        return int(np.clip(math.ceil(wanted), *_PAIRS))

    def is_compared(self, interval: int) -> bool:
        """Say whether the two revisions around an interval were compared with one another."""
        ends = self.positions[interval], self.positions[interval + 1]
        return any((one.before, one.after) == ends for one in self.comparisons)

    def answer(self, interval: int, probability: float) -> Answer:
        return Answer(
            before=self.positions[interval],
            after=self.positions[interval + 1],
            probability=probability,
            comparisons=tuple(self.comparisons),
            failed=tuple(sorted(self.failed)),
        )
