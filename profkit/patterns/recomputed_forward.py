"""Recomputed forward: layers that activation checkpointing runs again in the backward pass."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import Chosen, cause, having, inside, parents, per_step, time
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import own_lines

_LAYERS = r"^aten::(?:linear|conv[123]d|layer_norm|batch_norm|embedding|dropout|gelu|relu)$"
"""Operators that backward calls none of, but for another forward pass."""

_CHECKPOINT = r"torch/utils/checkpoint\.py\(\d+\): checkpoint$"
_FEWEST_KINDS = 2
"""A function with a backward of its own may call one of them there."""


@pattern(
    title="Forward computed again in backward",
    source="https://docs.pytorch.org/docs/stable/checkpoint.html",
    calls=_CHECKPOINT,
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, python_calls: pd.DataFrame, step: Step
) -> Match | None:
    """Find layers inside the functions of the backward pass."""
    nodes = having(cpu_ops, r"^autograd::engine::evaluate_function")
    layers = having(cpu_ops, _LAYERS) & inside(cpu_ops, nodes)
    calls = having(python_calls, _CHECKPOINT)
    kinds = cpu_ops["name"][layers].astype(object).nunique()
    if not kinds or (kinds < _FEWEST_KINDS and not calls.any()):
        return None
    above = _ancestors(cpu_ops, layers)
    again = inside(cpu_ops, above & nodes)
    # Where backward runs inside of it as well, its functions are none of the forward pass.
    again &= ~inside(cpu_ops, again & nodes & ~above)
    lines = pd.Series(own_lines(python_calls, calls), dtype=object)
    where = next(iter(lines[lines != ""].value_counts().index), "")
    return Match(
        cause=cause(cpu_ops, again, kernels),
        advice="Leave out `torch.utils.checkpoint`"
        + (f" in {where}" if where else "")
        + " where activations fit into memory, or checkpoint fewer layers: they run twice.",
        gain_ns=time(cpu_ops, again, kernels),
        place=str(where),
        confidence=Confidence.MEDIUM,
        evidence={"layers_per_step": per_step(layers, step.count)},
    )


def _ancestors(cpu_ops: pd.DataFrame, chosen: Chosen) -> Chosen:
    """Choose the operators that enclose one of those `chosen`."""
    found = above = parents(cpu_ops, chosen)
    while above.any():
        above = parents(cpu_ops, above) & ~found
        found |= above
    return found
