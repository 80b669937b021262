"""Gradients in inference: what backward would need is recorded, and no backward follows."""

import numpy as np
import pandas as pd

from profkit.patterns._rows import called, cause, inside, place, time, trains
from profkit.patterns.base import Match, Step, pattern

_NODE_NS = 2_500
"""To make a node of the graph, keep what it needs and free both: measured on layers of 64 x 64."""


@pattern(
    title="Gradients recorded in inference",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.autograd.grad_mode.inference_mode.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find operators that make nodes of a graph for backward in a program that has none."""
    nodes = _nodes(cpu_ops)
    if nodes <= step.count or trains(cpu_ops):
        return None
    recorded = (cpu_ops["sequence"] >= 0).to_numpy()
    outermost = called(cpu_ops) & recorded
    lasted_ns = float((cpu_ops["end_ns"] - cpu_ops["start_ns"])[outermost].sum())
    # Where the GPU is busy meanwhile, nothing waits for the CPU.
    share = min(time(cpu_ops, inside(cpu_ops, outermost)) / max(lasted_ns, 1.0), 1.0)
    return Match(
        cause=cause(cpu_ops, outermost, kernels),
        advice="Call the model under `torch.inference_mode()`, or `torch.no_grad()`. Autograd "
        f"prepares for backward in {nodes / step.count:,.0f} operators per step and keeps their "
        "activations, but no backward was recorded.",
        gain_ns=min(nodes * _NODE_NS, lasted_ns) * share,
        place=place(cpu_ops, outermost),
        evidence={"graph_nodes_per_step": round(nodes / step.count, 1)},
    )


def _nodes(cpu_ops: pd.DataFrame) -> int:
    """Return how many nodes operators made: each has the next number of its thread.

    Operators that make none, and those inside of one that does, repeat the number.
    """
    numbered = cpu_ops[["repeat", "step", "tid", "sequence"]][(cpu_ops["sequence"] >= 0).to_numpy()]
    of_thread = numbered.groupby(["repeat", "tid"])["sequence"]
    return int(np.maximum(of_thread.nunique() - 1, 0).sum())
