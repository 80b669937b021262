"""Garbage collection: Python looks through all objects while the step waits."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._causes import largest
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Pauses of garbage collection",
    source="https://docs.python.org/3/library/gc.html#gc.freeze",
)
def match(causes: pd.DataFrame, step: Step) -> Match | None:
    """Find the cause by its name."""
    found = largest(causes, r"^(?:gpu_idle\.)?garbage_collection$", "id", step)
    if found is None:
        return None
    return Match(
        cause=found.id,
        advice="After the first steps call `gc.collect()` and `gc.freeze()`, then "
        "`gc.disable()` and collect by hand every 1,000 steps, at the same step on all ranks.",
        gain_ns=found.gain_ns,
        place=found.place,
        confidence=Confidence.HIGH,
    )
