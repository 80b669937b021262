"""Single rows: a model that is called for one request at a time, though it could take several."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import MODEL, OWN_ALONE, outermost
from profkit.patterns._rows import cause, fitting, having, per_step, place, time, trains, within
from profkit.patterns._shapes import AT_ONCE, LAYER_PRODUCTS, has_one_row
from profkit.patterns.base import Match, Step, charged, pattern

_LEAST_PRODUCTS = 2
_MOSTLY = 0.9


@pattern(
    title="One request at a time",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    calls=OWN_ALONE,
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, python_calls: pd.DataFrame, step: Step
) -> Match | None:
    """Find matrix products of one row, in a program that trains nothing.

    Whether there are others to give the model at once, no recording says: that is advised where
    nothing else is.
    """
    products = having(cpu_ops, LAYER_PRODUCTS)
    single = products & fitting(cpu_ops, "input_shapes", has_one_row)
    are_few = per_step(products, step.count) < _LEAST_PRODUCTS
    if are_few or single.sum() < _MOSTLY * products.sum() or trains(cpu_ops):
        return None
    ops_ns = time(cpu_ops, having(cpu_ops, "^aten::"), kernels)
    model = python_calls[outermost(python_calls, having(python_calls, MODEL))]
    model_ns = charged(python_calls, within(python_calls, model))
    # What modules do in Python, they do once for each call as well.
    python_ns = max(model_ns - ops_ns, 0.0) if kernels.empty else 0.0
    saved = 1 - 1 / AT_ONCE
    return Match(
        cause=cause(cpu_ops, products, kernels),
        advice=f"Each matrix product has one row: where several requests wait, give the model all "
        f"of them in one call, as {AT_ONCE} rows take little longer than one.",
        gain_ns=(ops_ns + python_ns) * saved,
        place=place(cpu_ops, products),
        confidence=Confidence.LOW,
        also={"python": python_ns * saved} if python_ns else {},
        evidence={"products_per_step": per_step(products, step.count)},
    )
