"""Collections on demand: `gc.collect()` in the loop."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r"<built-in function collect>|\bgc\.collect\b"


@pattern(
    title="Garbage collected by hand in steps",
    source="https://docs.python.org/3/library/gc.html",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find `gc.collect` in the steps that count."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Remove `gc.collect()` from the loop; after start-up call `gc.collect()` and "
        "`gc.freeze()` once.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
