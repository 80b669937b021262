"""Restarted workers: the processes of a DataLoader started anew during training."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r"multiprocessing/(?:process|context|popen_\w+)\.py.*: (?:start|_launch|_Popen)$"


@pattern(
    title="DataLoader workers started anew",
    source="https://docs.pytorch.org/docs/stable/data.html",
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find processes that are started in the steps that count."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Create the DataLoader once, with `persistent_workers=True`, so that its workers "
        "outlive the epoch.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
