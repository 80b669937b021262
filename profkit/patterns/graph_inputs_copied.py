"""Inputs copied into CUDA graphs: tensors whose addresses the graph does not know."""

import pandas as pd

from profkit.patterns._rows import equal, having
from profkit.patterns.base import Match, Step, charged, pattern

_LEAST_COPIES = 20


@pattern(
    title="Inputs copied into CUDA graphs",
    source="https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html",
)
def match(kernels: pd.DataFrame, runtime_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find many copies on the GPU, outside graphs, in steps that launch graphs."""
    copies = equal(kernels, "copy_kind", "DtoD") & (kernels["graph"] < 0).to_numpy(dtype=bool)
    graphs = having(runtime_calls, "GraphLaunch")
    if not graphs.any() or copies.sum() < _LEAST_COPIES * step.count:
        return None
    return Match(
        cause="exposed_copies.DtoD",
        advice="Tell the compiler which tensors stay where they are: "
        "`torch._dynamo.mark_static_address(tensor)`; parameters are static under "
        '`torch.compile(mode="reduce-overhead")`, and are copied by older CUDA graph backends.',
        gain_ns=charged(kernels, copies),
        evidence={
            "copies_per_step": round(int(copies.sum()) / step.count, 1),
            "graphs_per_step": round(int(graphs.sum()) / step.count, 1),
        },
    )
