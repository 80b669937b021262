"""Many small all-reduces: gradients sent parameter by parameter."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._communication import CAUSE, FSDP, exposed, of_kind
from profkit.patterns._rows import having, per_step
from profkit.patterns.base import Match, Step, pattern

_LEAST_CALLS = 16
_SCALARS = 64
_MOST_BYTES = 1 << 20


@pattern(
    title="Many small all-reduces",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.parallel.DistributedDataParallel.html",
)
def match(
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find sixteen or more all-reduces a step, of more than scalars, of mostly less than 1 MiB."""
    calls = of_kind(collectives, "allreduce")
    calls &= (collectives["size_bytes"] > _SCALARS).to_numpy(dtype=bool)
    sizes = collectives["size_bytes"][calls]
    if calls.sum() < _LEAST_CALLS * step.count or not 0 < sizes.median() < _MOST_BYTES:
        return None
    if having(cpu_ops, FSDP).any():  # they are those of the shards: see `small_gathers`
        return None
    return Match(
        cause=CAUSE,
        advice="Send gradients in buckets: `DistributedDataParallel(model, bucket_cap_mb=25)` or "
        "more; without DDP flatten them and call `all_reduce` once for each 25 MB.",
        gain_ns=exposed(calls, collectives, kernels, causes, step),
        confidence=Confidence.HIGH,
        evidence={
            "calls_per_step": per_step(calls, step.count),
            "median_size_bytes": int(sizes.median()),
        },
    )
