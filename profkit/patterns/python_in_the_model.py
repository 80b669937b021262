"""Python in the model: functions inside forward or backward that call few operators, as hooks."""

import re

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import (
    MODEL,
    functions,
    least_ns,
    long_lasting,
    outermost,
    spent_on_cpu,
)
from profkit.patterns._rows import having, within
from profkit.patterns.base import Match, Step, pattern

_MOST_OPERATORS = 0.2
_SELDOM = "do it less often than in every step, or "
_FORWARD = re.compile(r": forward$")
"""The model itself, which every step needs."""


@pattern(
    title="Python inside the model",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    calls=MODEL,
    without_gpu=True,
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find the function of the program inside the model that takes most time without operators."""
    model = python_calls[outermost(python_calls, having(python_calls, MODEL))]
    if len(kernels) or model.empty:
        return None
    names = np.where(within(python_calls, model), functions(python_calls), "")
    for calls in long_lasting(python_calls, names, step):
        spent = spent_on_cpu(python_calls, calls, cpu_ops, causes)
        held = {spent.cause: spent.gain_ns - sum(spent.also.values()), **spent.also}
        of_python = sum(ns for cause, ns in held.items() if cause.startswith("python"))
        is_python = of_python >= (1 - _MOST_OPERATORS) * spent.gain_ns
        if is_python and spent.gain_ns >= least_ns(step):
            return Match(
                cause=spent.cause,
                advice=f"{spent.place} runs inside the model and calls few operators: "
                f"{'' if _FORWARD.search(spent.place) else _SELDOM}use operators on whole tensors.",
                gain_ns=spent.gain_ns,
                place=spent.place,
                confidence=Confidence.MEDIUM,
                also=spent.also,
                evidence={"calls_per_step": round(int(calls.sum()) / step.count, 1)},
            )
    return None
