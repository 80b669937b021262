"""Gradient clipping in a loop: one norm for each parameter."""

import pandas as pd

from profkit.patterns._rows import cause, equal, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_NORMS = 20


@pattern(
    title="Gradient norms one by one",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find many norms of single tensors outside forward and backward."""
    norms = having(cpu_ops, r"^aten::(?:norm|linalg_vector_norm)$")
    norms &= equal(cpu_ops, "module", "")
    if norms.sum() < _LEAST_NORMS * step.count:
        return None
    chosen = inside(cpu_ops, norms)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Call `torch.nn.utils.clip_grad_norm_(model.parameters(), limit, foreach=True)` "
        "once; log the norm that it returns.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, norms),
        evidence={"norms_per_step": per_step(norms, step.count)},
    )
