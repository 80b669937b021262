"""Python in the model: functions inside forward or backward that call few operators, as hooks."""

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import functions, outermost, spent_on_cpu
from profkit.patterns._rows import having, within
from profkit.patterns.base import Match, Step, pattern

_MODEL = r"torch/nn/modules/module\.py|torch/(?:_tensor|autograd/__init__)\.py\(\d+\): backward"
_LEAST_SHARE = 0.08
_LEAST_SIGHTINGS = 2
_MOST_OPERATORS = 0.2


@pattern(
    title="Python inside the model",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find the function of the program inside the model that takes most time without operators."""
    model = python_calls[outermost(python_calls, having(python_calls, _MODEL))]
    if len(kernels) or model.empty:
        return None
    names = np.where(within(python_calls, model), functions(python_calls), "")
    lasted = (python_calls["end_ns"] - python_calls["start_ns"]).groupby(names).sum()
    least_ns = _LEAST_SHARE * step.ms * 1e6 * step.count
    waits = set(causes.loc[having(causes, "^waiting_", "id"), "place"])
    for name in lasted[lasted >= least_ns].sort_values(ascending=False).index:
        calls = outermost(python_calls, names == name)
        if not name or calls.sum() < _LEAST_SIGHTINGS:
            continue
        spent = spent_on_cpu(python_calls, calls, cpu_ops, causes)
        held = {spent.cause: spent.gain_ns - sum(spent.also.values()), **spent.also}
        of_python = sum(ns for cause, ns in held.items() if cause.startswith("python"))
        is_python = of_python >= (1 - _MOST_OPERATORS) * spent.gain_ns
        if is_python and spent.gain_ns >= least_ns and spent.place not in waits:
            return Match(
                cause=spent.cause,
                advice=f"{spent.place} runs inside the model and calls few operators: do it less "
                "often than in every step, or with operators on whole tensors.",
                gain_ns=spent.gain_ns,
                place=spent.place,
                confidence=Confidence.MEDIUM,
                also=spent.also,
                evidence={"calls_per_step": round(int(calls.sum()) / step.count, 1)},
            )
    return None
