"""Slices in a loop: parts of a tensor, whose gradients are each as large as all of it."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_NODES = r"^autograd::engine::evaluate_function: (?:Select|Slice)Backward0$"
_FEWEST = 8
_LEAST_SHARE = 0.05
_OF_ONE = 0.5
"""Of the time: where the longest of a step takes more, it is not many that take it."""


@pattern(
    title="Zero-filled gradients of slices",
    source="https://docs.pytorch.org/docs/stable/generated/torch.unbind.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find the time in gradients of single indices and slices, where there are many in a step."""
    nodes = having(cpu_ops, _NODES)
    if per_step(nodes, step.count) < _FEWEST:
        return None
    lasted_ns = (cpu_ops["end_ns"] - cpu_ops["start_ns"])[nodes].sort_values()
    if lasted_ns.iloc[-step.count :].sum() > _OF_ONE * lasted_ns.sum():
        return None
    chosen = inside(cpu_ops, nodes)
    gain_ns = time(cpu_ops, chosen, kernels)
    if gain_ns < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    forward = cpu_ops["op"].isin(cpu_ops["forward"][nodes]).to_numpy(bool)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="The gradient of each `x[i]` or `x[:, i]` is as large as `x`, and zero but for a "
        "part: take all parts at once, `x.unbind(dim)` or `x.split(...)`, whose gradients are "
        "joined once, or compute without the loop.",
        gain_ns=gain_ns,
        place=place(cpu_ops, forward),
        confidence=Confidence.MEDIUM,
        evidence={"slices_per_step": per_step(nodes, step.count)},
    )
