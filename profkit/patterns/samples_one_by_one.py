"""Samples one by one: a loop over the samples of a batch, each with a backward pass of its own."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, equal, fitting, having, per_step, place, time
from profkit.patterns._shapes import AT_ONCE, LAYER_PRODUCTS, has_one_row
from profkit.patterns.base import Match, Step, pattern

_PASSES = r"^torch::autograd::AccumulateGrad$"
_FEWEST, _MOSTLY = 8, 0.9


@pattern(
    title="One sample at a time",
    source="https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find matrix products of one row that are as many in a step as gradients that are added up.

    Where one backward pass is of all of them, as of the actions in a game, each may need the one
    before it.
    """
    products = having(cpu_ops, LAYER_PRODUCTS) & ~equal(cpu_ops, "phase", "backward")
    single = products & fitting(cpu_ops, "input_shapes", has_one_row)
    if per_step(single, step.count) < _FEWEST or single.sum() < _MOSTLY * products.sum():
        return None
    if having(cpu_ops, _PASSES).sum() < single.sum():
        return None
    of_model = having(cpu_ops, "^aten::") & ~equal(cpu_ops, "phase", "optimizer")
    return Match(
        cause=cause(cpu_ops, of_model, kernels),
        advice=f"Each matrix product has one row, {per_step(single, step.count):,.0f} times in a "
        "step: give the model the whole batch in one call, or where each sample needs gradients of "
        "its own `torch.func.vmap(torch.func.grad(...))`.",
        gain_ns=time(cpu_ops, of_model, kernels) * (1 - 1 / AT_ONCE),
        place=place(cpu_ops, single),
        confidence=Confidence.MEDIUM,
        evidence={"products_per_step": per_step(single, step.count)},
    )
