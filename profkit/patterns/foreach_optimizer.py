"""Foreach optimizers: several passes over all parameters where a fused one needs one."""

import pandas as pd

from profkit.patterns._rows import cause, having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Optimizer in several passes",
    source="https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find steps of Adam, AdamW or SGD that are made of `_foreach_` operators."""
    steps = having(cpu_ops, r"^Optimizer\.step#(?:Adam|AdamW|SGD)\.step")
    passes = inside(cpu_ops, steps) & having(cpu_ops, "^aten::_foreach_")
    if passes.sum() < 2 * step.count:
        return None
    chosen = inside(cpu_ops, passes)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Create the optimizer with `fused=True`: one pass over the parameters instead of "
        f"{per_step(passes, step.count):g}.",
        gain_ns=time(cpu_ops, chosen, kernels) / 2,
        place="optimizer",
        evidence={"passes_per_step": per_step(passes, step.count)},
    )
