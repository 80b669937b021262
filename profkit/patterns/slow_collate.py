"""Slow collate: single samples put together into a batch in Python."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import equal, having, within
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r"_utils/collate\.py.*: |: (?:\w*_)?collate(?:_fn|_batch)?$"


@pattern(
    title="Batches put together in Python",
    source="https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in collate functions of the process that trains."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    fits = having(python_calls, _FUNCTIONS)
    called = python_calls[equal(python_calls, "name", spent.place) & ~fits]
    # What it calls of the program may be another pattern, a tokenizer for one.
    is_of_another = within(called, python_calls[fits]).any()
    return Match(
        cause=spent.cause,
        advice="Let the dataset return whole batches (a `BatchSampler` as `sampler`, "
        "`batch_size=None`, `__getitems__`), or write a `collate_fn` that stacks arrays once.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        confidence=Confidence.LOW if is_of_another else Confidence.MEDIUM,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
