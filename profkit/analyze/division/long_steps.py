"""Long steps: what the program does only in some steps, such as once an epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.analyze.division import charges
from profkit.analyze.division.partition import spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.patterns.base import CHARGED, Step

_LONG = 1.5
_FEWEST = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSteps:
    """Steps after those that were traced, in which the thread was looked at all the same."""

    long: Intervals
    """Those that took far longer than the median."""

    usual: Intervals
    """All others."""

    @property
    def step(self) -> Step:
        """What patterns are told of them, all together."""
        spans = np.concatenate((self.long, self.usual))
        return Step(count=len(spans), ms=float((spans[:, 1] - spans[:, 0]).mean()) / 1e6)

    def each(self) -> Iterator[tuple[Intervals, Step]]:
        """Yield each long step, as its span and as what patterns know of it."""
        for span in self.long:
            yield span[None], Step(count=1, ms=float(span[1] - span[0]) / 1e6)


def sampled_steps(rank: RecordedRank, steps: pd.DataFrame) -> SampledSteps | None:
    """Return the `steps` after the trace of `rank`, None where none of them is long.

    With a GPU the time of a step says when its launches ended, and is none of the GPU's.
    """
    spans = spans_of(steps)
    spans = spans[spans[:, 0] >= rank.windows[:, 1].max()]
    if not rank.is_sampled or len(rank.kernels) or len(spans) < _FEWEST:
        return None
    lasted = spans[:, 1] - spans[:, 0]
    is_long = lasted > _LONG * np.median(lasted)
    return SampledSteps(long=spans[is_long], usual=spans[~is_long]) if is_long.any() else None


def calls_within(rank: RecordedRank, spans: Intervals) -> pd.DataFrame:
    """Return the Python calls in `spans`, charged with the time in which each was the innermost."""
    calls = rank.python.assign(**{CHARGED: charges.of_python(rank, spans)})
    return calls[intervals.overlap(spans_of(calls), spans) > 0]
