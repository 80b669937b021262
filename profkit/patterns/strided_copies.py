"""Copies that change strides: `contiguous`, `clone` and `reshape` in the forward pass."""

import pandas as pd

from profkit.patterns._rows import cause, equal, having, inside, per_step, place, time
from profkit.patterns._shapes import CONVOLUTIONS
from profkit.patterns.base import Match, Step, pattern

_LEAST_SHARE = 0.05


@pattern(
    title="Copies that change strides",
    source="https://docs.pytorch.org/docs/stable/tensor_view.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find copies below `contiguous` and `reshape` that no convolution and no backward made."""
    calls = having(cpu_ops, r"^aten::(?:contiguous|_reshape_copy|reshape)$")
    calls &= ~equal(cpu_ops, "phase", "backward")
    calls &= ~inside(cpu_ops, having(cpu_ops, CONVOLUTIONS))
    if not calls.any():
        return None
    chosen = inside(cpu_ops, calls) & having(cpu_ops, r"^aten::(?:clone|copy_)$")
    gain = time(cpu_ops, chosen, kernels)
    if gain < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Leave out `contiguous` where the next operator takes strides as they are, as "
        "matrix products, `einsum` and `scaled_dot_product_attention` do, or transpose what is "
        "smaller.",
        gain_ns=gain,
        place=place(cpu_ops, chosen),
        evidence={"copies_per_step": per_step(chosen, step.count)},
    )
