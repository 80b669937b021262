"""Many small copies: inputs sent to the GPU in pieces, each with its own call."""

import pandas as pd

from profkit.patterns._rows import equal, having, inside, operators_of, parents, place, time
from profkit.patterns.base import Match, Step, charged, pattern

_LEAST_COPIES = 16
_MOST_BYTES = 65_536


@pattern(
    title="Inputs copied in many small pieces",
    source="https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
    "#data-transfer-between-host-and-device",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find sixteen or more copies a step to the GPU of at most 64 KiB each."""
    small = equal(kernels, "copy_kind", "HtoD")
    small &= (kernels["size_bytes"] <= _MOST_BYTES).to_numpy(dtype=bool)
    if small.sum() < _LEAST_COPIES * step.count:
        return None
    copies = operators_of(kernels[small], cpu_ops)
    copies &= having(cpu_ops, "^aten::")
    around = parents(cpu_ops, copies) & having(cpu_ops, r"^aten::(?:to|_to_copy)$")
    return Match(
        cause="gpu_idle",
        advice="Pack the small inputs into one pinned tensor, copy that once with "
        "`non_blocking=True` and split it on the GPU; make constants there: "
        '`torch.arange(n, device="cuda")`.',
        gain_ns=charged(kernels, small) + time(cpu_ops, inside(cpu_ops, copies | around)),
        place=place(cpu_ops, copies),
        evidence={"copies_per_step": round(int(small.sum()) / step.count, 1)},
    )
