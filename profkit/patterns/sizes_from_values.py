"""Sizes that depend on values: boolean indexing and `nonzero`, which wait for the GPU."""

import pandas as pd

from profkit.patterns._rows import having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_OPERATORS = r"^aten::(?:nonzero|masked_select|_unique2|unique_consecutive|unique_dim)$"


@pattern(
    title="Sizes that depend on values",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#avoid-unnecessary-cpu-gpu-synchronization",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find operators whose result has a size that only the GPU knows."""
    calls = having(cpu_ops, _OPERATORS)
    if not calls.any() or kernels.empty:
        return None
    chosen = inside(cpu_ops, calls)
    where = place(cpu_ops, calls)
    return Match(
        cause="gpu_idle.blocked",
        advice="Keep sizes fixed: `torch.where(mask, x, 0)` or a multiplication by the mask "
        f"instead of `x[mask]`, `nonzero` or `unique` in {where or 'each step'}.",
        gain_ns=time(cpu_ops, chosen),
        place=where,
        evidence={"calls_per_step": per_step(calls, step.count)},
    )
