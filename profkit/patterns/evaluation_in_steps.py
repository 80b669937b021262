"""Evaluation in steps: many rows run through the model within training steps, as for validation."""

from statistics import median

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import contained, spent_in
from profkit.patterns._rows import calling_line, cause, equal, having, place, time, trains, within
from profkit.patterns._shapes import CONVOLUTIONS, LAYER_PRODUCTS, operands, shape
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r": (?:evaluate|eval_\w+|(?:run_)?validat\w+|compute_metrics|_?evaluation\w*)$"
_MANY = 8
"""Times as many rows as a step trains on."""

_MOST_STEPS = 0.5
_DEPTH = 2
"""Sizes that the weights of a layer have at least."""


@pattern(
    title="Model evaluated in training steps",
    source="https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find functions named after evaluation in the steps of a training, or passes of many rows."""
    if len(cpu_ops) and not trains(cpu_ops):
        return None
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return _of_many_rows(cpu_ops, kernels, step)
    return Match(
        cause=spent.cause,
        advice="Evaluate every few hundred steps, under `torch.inference_mode()`, or in a process "
        "of its own that reads checkpoints.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )


def _of_many_rows(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find passes of the trained layers without a gradient, of far more rows than are trained on.

    So programs look for hard examples, or run all data through the model.
    """
    ranges = equal(cpu_ops, "kind", "annotation")
    passes = cpu_ops[having(cpu_ops, "^(?:forward|evaluation)$") & ranges]
    linked = cpu_ops["op"].isin(cpu_ops.loc[cpu_ops["forward"] >= 0, "forward"])
    is_trained = contained(passes, cpu_ops["start_ns"][linked]) > 0
    if not is_trained.any() or (~is_trained).sum() < _MOST_STEPS * step.count:
        return None
    chosen = within(cpu_ops, passes[~is_trained])
    usual, rows = (_rows(cpu_ops[one]) for one in (within(cpu_ops, passes[is_trained]), chosen))
    times = [rows[weights] / usual[weights] for weights in rows.keys() & usual.keys()]
    if median(times or [0]) < _MANY:
        return None
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"In each step the model is called without gradients on {median(times):,.0f} times "
        "as many rows as it is trained on: do that less often, or with fewer rows.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=calling_line(cpu_ops["stack"][chosen].astype(str)) or place(cpu_ops, chosen),
        confidence=Confidence.MEDIUM,
        evidence={"passes_per_step": round(int((~is_trained).sum()) / step.count, 1)},
    )


def _rows(cpu_ops: pd.DataFrame) -> dict[tuple[int, ...], int]:
    """Return the most rows that layers are given at once, by the shape of their weights."""
    found: dict[tuple[int, ...], int] = {}
    for expression, given in ((LAYER_PRODUCTS, operands), (CONVOLUTIONS, _convolved)):
        for text in cpu_ops["input_shapes"][having(cpu_ops, expression)].astype(str).unique():
            inputs, weights = given(text)
            if inputs and len(weights) >= _DEPTH:
                of = tuple(weights)
                found[of] = max(found.get(of, 1), inputs[0])
    return found


def _convolved(text: str) -> tuple[list[int], list[int]]:
    return shape(text, 0), shape(text, 1)
