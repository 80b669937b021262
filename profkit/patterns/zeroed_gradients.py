"""Zeroed gradients: filled with zeros in each step instead of dropped."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Gradients filled with zeros",
    source="https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find work inside `zero_grad`."""
    calls = having(cpu_ops, r"^Optimizer\.zero_grad")
    filled = inside(cpu_ops, calls) & having(cpu_ops, r"^aten::(?:zero_|fill_|_foreach_zero_)$")
    if not filled.any():
        return None
    chosen = inside(cpu_ops, calls)
    return Match(
        cause=cause(cpu_ops, chosen & ~calls, kernels),
        advice="Call `optimizer.zero_grad(set_to_none=True)`, the default since PyTorch 2.0.",
        gain_ns=time(cpu_ops, chosen, kernels),
        confidence=Confidence.HIGH,
        evidence={"fills_per_step": per_step(filled, step.count)},
    )
