"""Single rows: a model that is called for one request at a time, though it could take several."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting, having, per_step, place, time, trains
from profkit.patterns._shapes import AT_ONCE, LAYER_PRODUCTS, has_one_row
from profkit.patterns.base import Match, Step, pattern

_LEAST_PRODUCTS = 2
_MOSTLY = 0.9


@pattern(
    title="One request at a time",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find matrix products of one row, in a program that trains nothing.

    Whether there are others to give the model at once, no recording says: that is advised where
    nothing else is.
    """
    products = having(cpu_ops, LAYER_PRODUCTS)
    single = products & fitting(cpu_ops, "input_shapes", has_one_row)
    are_few = per_step(products, step.count) < _LEAST_PRODUCTS
    if are_few or single.sum() < _MOSTLY * products.sum() or trains(cpu_ops):
        return None
    of_model = having(cpu_ops, "^aten::")
    return Match(
        cause=cause(cpu_ops, products, kernels),
        advice=f"Each matrix product has one row: where several requests wait, give the model all "
        f"of them in one call, as {AT_ONCE} rows take little longer than one.",
        gain_ns=time(cpu_ops, of_model, kernels) * (1 - 1 / AT_ONCE),
        place=place(cpu_ops, products),
        confidence=Confidence.LOW,
        evidence={"products_per_step": per_step(products, step.count)},
    )
