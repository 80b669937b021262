"""Scalars sent to the GPU: copies of a few bytes for which the CPU waits."""

import pandas as pd

from profkit.patterns._rows import belonging, equal, having, operators_of, place
from profkit.patterns.base import CHARGED, Match, charged, pattern

_MOST_BYTES = 64


@pattern(
    title="Scalars copied to the GPU",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#create-tensors-directly-on-the-target-device",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, runtime_calls: pd.DataFrame
) -> Match | None:
    """Find synchronisations in the operators that copy a few bytes to the GPU."""
    tiny = equal(kernels, "copy_kind", "HtoD")
    tiny &= kernels["size_bytes"].between(1, _MOST_BYTES).to_numpy(dtype=bool)
    if not tiny.any():
        return None
    copies = operators_of(kernels[tiny], cpu_ops)
    waits = belonging(runtime_calls, cpu_ops, copies) & having(runtime_calls, "Synchronize|Memcpy")
    if not waits.any():
        return None
    rows = runtime_calls[waits]
    call = str(rows.groupby(rows["name"].astype(object))[CHARGED].sum().idxmax())
    return Match(
        cause=f"gpu_idle.blocked.{call}",
        advice="Keep such numbers in Python, or make them on the GPU: "
        '`torch.full((), value, device="cuda")` instead of `torch.tensor(value).to("cuda")`.',
        gain_ns=charged(rows),
        place=place(cpu_ops, copies),
        evidence={"copies": int(tiny.sum())},
    )
