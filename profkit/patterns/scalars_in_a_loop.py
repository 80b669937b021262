"""Scalars in a Python loop: single values taken from tensors, one at a time."""

import pandas as pd

from profkit.patterns._rows import having, inside, parents, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_READS = 100


@pattern(
    title="Values taken from tensors one at a time",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.tolist.html",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find a hundred or more reads of single values in each step."""
    reads = having(cpu_ops, r"^aten::item$")
    if reads.sum() < _LEAST_READS * step.count:
        return None
    chosen = inside(cpu_ops, reads | having(cpu_ops, r"^aten::(?:select|unbind|is_nonzero)$"))
    chosen |= parents(cpu_ops, reads) & having(cpu_ops, "^aten::")
    cause = "gpu_idle.python" if len(kernels) else "python"
    around = causes.loc[causes["id"].astype(str) == cause, "gain_ms"]
    python = float(around.iloc[0]) * 1e6 * step.count if len(around) else 0.0
    where = place(cpu_ops, reads)
    return Match(
        cause=cause,
        advice="Compute with whole tensors (`(prediction == target).sum()`), or read all values at "
        f"once with `.tolist()`, instead of a Python loop in {where or 'the step'}.",
        gain_ns=time(cpu_ops, chosen) + (0.0 if len(kernels) else python),
        place=where,
        evidence={"reads_per_step": per_step(reads, step.count)},
    )
