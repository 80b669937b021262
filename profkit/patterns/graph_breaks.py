"""Graph breaks: a compiled model in pieces, with Python between them."""

import pandas as pd

from profkit.patterns._rows import having, per_step, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_PIECES = 4


@pattern(
    title="Graph breaks in the compiled model",
    source="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find several different compiled regions in each step."""
    regions = having(cpu_ops, r"^Torch-Compiled Region")
    pieces = cpu_ops["name"][regions].astype(object).nunique()
    if pieces < _LEAST_PIECES:
        return None
    overhead = regions | having(cpu_ops, "^TorchDynamo Cache Lookup")
    return Match(
        cause="gpu_idle.python" if len(kernels) else "python",
        advice='Run with `TORCH_LOGS="graph_breaks"`, or `torch.compile(model, fullgraph=True)` to '
        "fail at the first; no `.item()`, `print` or data-dependent `if` in forward.",
        gain_ns=time(cpu_ops, overhead),
        evidence={"regions": int(pieces), "regions_per_step": per_step(regions, step.count)},
    )
