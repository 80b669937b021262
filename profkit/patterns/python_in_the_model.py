"""Python in the model: hooks, and other functions inside it that call few operators."""

import re
from collections.abc import Callable

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
from profkit.patterns._rows import Chosen, having, within
from profkit.patterns.base import Match, Step, pattern

_MOST_OPERATORS = 0.2
_SELDOM = "do it less often, if not each step needs it, or "
_MOSTLY = 0.5
_OF_MODEL = rf": forward$|{MODEL}"
_BY_MODULES = rf"{MODEL}|torch/nn/modules/module\.py\(\d+\): inner$"
"""Hooks are called by a function inside the one that calls the module."""

_FORWARD = re.compile(r": forward$")
"""The model itself, which every step needs."""


@pattern(
    title="Python inside the model",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    calls=_BY_MODULES,
    without_gpu=True,
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find the function of the program inside the model that takes most time without operators.

    Or with them, if it is a hook, which modules call beside their forward.
    """
    model = python_calls[outermost(python_calls, having(python_calls, MODEL))]
    if len(kernels) or model.empty:
        return None
    # Sampled calls of the model last as long as those of what calls it.
    inside = within(python_calls, model) & ~_callers(python_calls, model)
    names = np.where(inside, functions(python_calls), "")
    for calls in long_lasting(python_calls, names, step):
        spent = spent_on_cpu(python_calls, calls, cpu_ops, causes)
        held = {spent.cause: spent.gain_ns - sum(spent.also.values()), **spent.also}
        of_python = sum(ns for cause, ns in held.items() if cause.startswith("python"))
        is_python = of_python >= (1 - _MOST_OPERATORS) * spent.gain_ns
        is_hook = not is_python and _are_hooks(python_calls, calls)
        if (is_python or is_hook) and spent.gain_ns >= least_ns(step):
            rarely = "" if _FORWARD.search(spent.place) else _SELDOM
            return Match(
                cause=spent.cause,
                advice=f"{spent.place} is in a hook of modules: {_SELDOM}compute less in it."
                if is_hook
                else f"{spent.place} runs inside the model and calls few operators: "
                f"{rarely}use operators on whole tensors.",
                gain_ns=spent.gain_ns,
                place=spent.place,
                confidence=Confidence.MEDIUM,
                also=spent.also,
                evidence={"calls_per_step": round(int(calls.sum()) / step.count, 1)},
            )
    return None


def _callers(python_calls: pd.DataFrame, calls: pd.DataFrame) -> Chosen:
    """Choose what makes the `calls`, and what makes these."""
    callers = python_calls["call"].isin(calls["caller"]).to_numpy(bool)
    return _spread(callers, lambda found: python_calls["call"].isin(python_calls["caller"][found]))


def _are_hooks(python_calls: pd.DataFrame, calls: Chosen) -> bool:
    """Tell whether modules make the `calls`, and no forward, nor module, runs in them."""
    callers = python_calls["call"][having(python_calls, _BY_MODULES)]
    by_modules = python_calls["caller"][calls].isin(callers)
    of_model = having(python_calls, _OF_MODEL)
    return bool(
        by_modules.mean() > _MOSTLY and not (_with_callees(python_calls, calls) & of_model).any()
    )


def _with_callees(python_calls: pd.DataFrame, calls: Chosen) -> Chosen:
    """Choose the `calls` and all that they call: of samples, callers may last no longer."""
    return _spread(calls, lambda found: python_calls["caller"].isin(python_calls["call"][found]))


def _spread(found: Chosen, next_to: Callable[[Chosen], "pd.Series[bool]"]) -> Chosen:
    """Choose what was `found`, what is `next_to` that, and so on."""
    while True:
        more = found | next_to(found).to_numpy(bool)
        if (more == found).all():
            return found
        found = more
