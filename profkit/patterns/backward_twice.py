"""Backward twice: operators of one forward pass that several backward passes go through."""

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, equal, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_NODES = r"^autograd::engine::evaluate_function: "


@pattern(
    title="Backward twice through the same operators",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find nodes of backward whose forward operator has had one before, of a graph that was kept.

    Gradients of gradients go through it twice by their nature: their backward has a graph itself.
    """
    forward = cpu_ops["forward"].to_numpy(np.int64)
    nodes = having(cpu_ops, _NODES) & (forward >= 0)
    again, before = (np.zeros(len(cpu_ops), dtype=np.bool_) for _ in range(2))
    rows = cpu_ops.loc[nodes, ["repeat", "forward"]]
    again[nodes], before[nodes] = rows.duplicated(), rows.duplicated(keep="last")
    in_backward = cpu_ops.loc[equal(cpu_ops, "phase", "backward"), "op"]
    if not again.any() or in_backward.isin(forward[nodes]).any():
        return None
    chosen = inside(cpu_ops, again)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="With `retain_graph=True` gradients go through "
        f"{per_step(again, step.count):,.0f} operators once more in a step: `detach()` what one of "
        "the losses need not reach, as samples of a generator in the loss of its discriminator, or "
        "add up the losses and call `backward()` once.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, inside(cpu_ops, before)),  # where the graph is kept
        confidence=Confidence.MEDIUM,
        evidence={"nodes_per_step": per_step(again, step.count)},
    )
