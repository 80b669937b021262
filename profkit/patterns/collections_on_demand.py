"""Collections on demand: `gc.collect()` in the loop."""

from dataclasses import replace

import pandas as pd

from profkit.patterns._causes import largest
from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import having
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.frame_files import imported_library

BY_HAND = r"<built-in function collect>|\bgc\.collect\b"
COLLECTING = r"^(?:gpu_idle\.)?garbage_collection$"


@pattern(
    title="Garbage collected by hand in steps",
    source="https://docs.python.org/3/library/gc.html",
    calls=BY_HAND,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find `gc.collect` in the steps that count."""
    spent = spent_in(BY_HAND, without_libraries(python_calls), cpu_ops, causes, step)
    if spent is None:
        return None
    collecting = largest(causes, COLLECTING, "id", step)
    if collecting is not None:
        # Sampled stacks tell the line, the runs of the collector how long it took.
        is_all = collecting.place == spent.place
        gain_ns = collecting.gain_ns if is_all else min(spent.gain_ns, collecting.gain_ns)
        spent = replace(spent, cause=collecting.id, gain_ns=gain_ns, also={})
    return Match(
        cause=spent.cause,
        advice="Remove `gc.collect()` from the loop; after start-up call `gc.collect()` and "
        "`gc.freeze()` once.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )


def without_libraries(python_calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls without the collections that a library asks for, as the compiler does."""
    asked = having(python_calls, BY_HAND)
    if not asked.any():
        return python_calls
    callers = python_calls[python_calls["call"].isin(python_calls["caller"][asked])]
    are_of_others = [bool(imported_library(str(name))) for name in callers["name"]]
    left_out = asked & python_calls["caller"].isin(callers["call"][are_of_others])
    kept: pd.DataFrame = python_calls[~left_out]
    return kept
