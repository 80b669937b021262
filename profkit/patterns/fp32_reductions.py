"""FP32 gradients on the wire: all-reduces that could send half of the bytes."""

import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind, without_waiting
from profkit.patterns._rows import equal
from profkit.patterns.base import Match, Step, pattern

_LEAST_BYTES = 1 << 20


@pattern(
    title="Gradients sent in FP32",
    source="https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html",
)
def match(
    collectives: pd.DataFrame, kernels: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find large all-reduces of float32."""
    calls = of_kind(collectives, "allreduce")
    calls &= equal(collectives, "dtype", "float32")
    calls &= (collectives["size_bytes"] >= _LEAST_BYTES).to_numpy(dtype=bool)
    if not calls.any():
        return None
    exposed_ns = exposed(calls, collectives, kernels, causes, step)
    size = int(collectives["size_bytes"][calls].sum()) // step.count
    return Match(
        cause=f"{CAUSE}.transfer",
        advice="Send gradients in bf16: "
        "`model.register_comm_hook(None, default_hooks.bf16_compress_hook)`.",
        gain_ns=without_waiting(exposed_ns, causes, step) / 2,
        evidence={"size_bytes_per_step": size},
    )
