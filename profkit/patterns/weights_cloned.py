"""Cloned weights: many tensors cloned outside the model in each step."""

import pandas as pd

from profkit.patterns._rows import cause, equal, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_CLONES = 8


@pattern(
    title="Weights cloned in each step",
    source="https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find eight or more clones a step that no module, loss or optimizer made."""
    clones = having(cpu_ops, r"^aten::clone$")
    outside = equal(cpu_ops, "module", "")
    outside &= ~inside(
        cpu_ops,
        having(cpu_ops, r"^autograd::|^Optimizer\.|^Compiled|^Torch-Compiled|^aten::(?!clone$)"),
    )
    clones &= outside
    if clones.sum() < _LEAST_CLONES * step.count:
        return None
    chosen = inside(cpu_ops, clones)
    where = place(cpu_ops, clones)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Copy the weights less often, or into tensors that exist: "
        "`torch._foreach_copy_(copies, parameters)`; for an average use "
        "`torch.optim.swa_utils.AveragedModel`.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=where,
        evidence={"clones_per_step": per_step(clones, step.count)},
    )
