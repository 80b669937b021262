"""Metrics in steps: scores of libraries that are computed of what each step predicts."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import outermost, spent_in_calls
from profkit.patterns._rows import having, within
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"(?:^|/)torchmetrics/(?:metric|collections)\.py\(\d+\): "
    r"(?:update|compute|forward|wrapped_func)$"
    r"|(?:^|/)(?:sklearn|torcheval|ignite)/metrics/"
)
_LOGS = r"logger_connector/|(?:lightning/pytorch|pytorch_lightning)/core/module\.py\(\d+\): log"
"""What keeps the values that a program logs in metrics of its own."""


@pattern(
    title="Metrics computed in each step",
    source="https://lightning.ai/docs/torchmetrics/stable/pages/overview.html",
    calls=rf"{_FUNCTIONS}|{_LOGS}",
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in metrics that the program calls, and not in those that a logger keeps."""
    is_logged = within(python_calls, python_calls[having(python_calls, _LOGS)])
    calls = outermost(python_calls, having(python_calls, _FUNCTIONS) & ~is_logged)
    if not calls.any():
        return None
    spent = spent_in_calls(calls, python_calls, cpu_ops, causes, step)
    return Match(
        cause=spent.cause,
        advice="Compute them once at the end of an epoch, or of every 50th batch; those that need "
        "all predictions at once, as areas under curves, take longer with each step.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        confidence=Confidence.MEDIUM,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
