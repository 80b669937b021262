"""Cloned weights: many tensors cloned outside the model in each step."""

import pandas as pd

from profkit.patterns._rows import cause, equal, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_LEAST_CLONES = 8
_SIZES = 2
"""Shapes that the weights of a model have at least."""


@pattern(
    title="Weights cloned in each step",
    source="https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find eight or more clones a step that no module, loss or optimizer made, of several sizes."""
    clones = having(cpu_ops, r"^aten::clone$")
    outside = equal(cpu_ops, "module", "")
    outside &= ~inside(
        cpu_ops,
        having(cpu_ops, r"^autograd::|^Optimizer\.|^Compiled|^Torch-Compiled|^aten::(?!clone$)"),
    )
    clones &= outside
    shapes = {tuple(shape(text)) for text in cpu_ops["input_shapes"][clones].unique() if text}
    # A number has no size, and the tensors of a loop have the same.
    if clones.sum() < _LEAST_CLONES * step.count or (shapes and len(shapes - {()}) < _SIZES):
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
