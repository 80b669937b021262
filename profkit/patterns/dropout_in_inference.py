"""Dropout in inference: a model that was left in training mode answers at random, and slower."""

import pandas as pd

from profkit.patterns._attention_products import MATH, products_of_fused_ns
from profkit.patterns._dropout import at_work
from profkit.patterns._rows import cause, having, inside, per_step, place, time, trains
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Dropout in inference",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html"
    "#torch.nn.Module.eval",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find dropout that draws random numbers in a program that makes no backward pass.

    Attention with it has no fused kernel on a CPU, and is in single operators for that.
    """
    drops = at_work(cpu_ops)
    if not drops.any() or trains(cpu_ops):
        return None
    attention = having(cpu_ops, MATH)
    if not (inside(cpu_ops, attention) & drops).any():
        attention &= False
    chosen = inside(cpu_ops, drops | attention)
    fused_ns = products_of_fused_ns(cpu_ops, inside(cpu_ops, attention), kernels)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Call `model.eval()` before it answers: dropout draws random numbers, so that equal "
        "requests have different answers, and no backward was recorded.",
        gain_ns=time(cpu_ops, chosen, kernels) - fused_ns,
        place=place(cpu_ops, drops),
        evidence={"dropouts_per_step": per_step(drops, step.count)},
    )
