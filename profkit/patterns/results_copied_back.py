"""Results copied back: `.cpu()` in each step, which waits until the GPU is done."""

import pandas as pd

from profkit.patterns._rows import (
    equal,
    having,
    inside,
    operators_of,
    parents,
    per_step,
    place,
    time,
)
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Results copied back in each step",
    source="https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find copies of tensors from the GPU that hold the CPU."""
    back = equal(kernels, "copy_kind", "DtoH")
    if not back.any():
        return None
    copies = operators_of(kernels[back], cpu_ops)
    copies &= having(cpu_ops, r"^aten::copy_$")
    if not copies.any():
        return None
    chosen = inside(cpu_ops, copies)
    where = place(cpu_ops, copies | parents(cpu_ops, copies))
    return Match(
        cause="gpu_idle.blocked",
        advice="Copy into a pinned tensor with `copy_(..., non_blocking=True)` and read it a step "
        f"later, or every 100 steps, instead of `.cpu()` in {where or 'each step'}.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=where,
        evidence={"copies_per_step": per_step(copies, step.count)},
    )
