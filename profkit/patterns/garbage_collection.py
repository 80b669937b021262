"""Garbage collection: Python looks through all objects while the step waits."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._causes import largest
from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import trains
from profkit.patterns.base import Match, Step, pattern
from profkit.patterns.collections_on_demand import BY_HAND, COLLECTING, without_libraries


@pattern(
    title="Pauses of garbage collection",
    source="https://docs.python.org/3/library/gc.html#gc.freeze",
    calls=BY_HAND,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find the cause by its name, unless most of it is where the program collects by hand."""
    found = largest(causes, COLLECTING, "id", step)
    by_hand = spent_in(BY_HAND, without_libraries(python_calls), cpu_ops, causes, step)
    if found is None or (by_hand is not None and by_hand.place == found.place):
        return None
    return Match(
        cause=found.id,
        advice="After the first steps call `gc.collect()` and `gc.freeze()`, then "
        "`gc.disable()` and collect by hand every 1,000 "
        + ("steps, at the same step on all ranks." if trains(cpu_ops) else "requests or batches."),
        gain_ns=found.gain_ns,
        place=found.place,
        confidence=Confidence.HIGH,
    )
