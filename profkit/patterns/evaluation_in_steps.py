"""Evaluation in steps: the validation set run through the model within training steps."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import trains
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r": (?:evaluate|eval_\w+|(?:run_)?validat\w+|compute_metrics|_?evaluation\w*)$"


@pattern(
    title="Evaluation in training steps",
    source="https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find functions named after evaluation in the steps of a training."""
    if len(cpu_ops) and not trains(cpu_ops):
        return None
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Evaluate every few hundred steps, under `torch.inference_mode()`, or in a process "
        "of its own that reads checkpoints.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
