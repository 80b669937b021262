"""How long the garbage collector runs in a step, where more steps were looked at than traced."""

import numpy as np
import pandas as pd

from profkit.analyze.division.partition import spans_of
from profkit.analyze.shared import intervals

PER_STEP_NS = "per_step_ns"
"""Time that the collector took in a step, the mean of all that were looked at; -1: not known."""


def with_usual_times(pauses: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the collector with `PER_STEP_NS`, from all `steps` that were looked at."""
    usual_ns = np.full(len(pauses), -1, dtype=np.int64)
    places = pauses.groupby(["rank", "repeat"], observed=True).indices
    for where, of_where in steps.groupby(["rank", "repeat"], observed=True):
        if where in places:
            spans = intervals.union(spans_of(pauses.iloc[places[where]]))
            usual_ns[places[where]] = intervals.overlap(spans_of(of_where), spans).mean()
    return pauses.assign(**{PER_STEP_NS: usual_ns})


def gain_ns(pauses: pd.DataFrame, traced_ns: float) -> float:
    """Return what can be gained of `traced_ns` of a step: one long run of few traced steps is not.

    `pauses` are those of one rank and repeat.
    """
    usual_ns = int(pauses[PER_STEP_NS].max()) if len(pauses) and PER_STEP_NS in pauses else -1
    return traced_ns if usual_ns < 0 else min(traced_ns, float(usual_ns))
