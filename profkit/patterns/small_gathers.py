"""Small gathers: sharded parameters fetched in pieces too small for the network."""

import pandas as pd

from profkit.patterns._communication import CAUSE, FSDP, exposed, of_kind
from profkit.patterns._rows import having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_CALLS = 24
_MOST_BYTES = 4 << 20
_ON_CPU = "cpu_operators"


@pattern(
    title="Small gathers of sharded parameters",
    source="https://www.deepspeed.ai/docs/config-json/#zero-optimizations-for-fp16-training",
)
def match(
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find two dozen or more all-gathers a step whose median size is under 4 MiB."""
    calls = of_kind(collectives, "allgather")
    sizes = collectives["size_bytes"][calls]
    if calls.sum() < _LEAST_CALLS * step.count or not 0 < sizes.median() < _MOST_BYTES:
        return None
    ranges = having(cpu_ops, FSDP)
    if ranges.any():
        # Gradients are reduced in the same pieces.
        calls |= of_kind(collectives, "reduce_scatter") | of_kind(collectives, "allreduce")
    # A CPU copies each piece as well, with operators that take about as long for a larger one.
    copies_ns = 0.0
    if kernels.empty:
        copies_ns = time(cpu_ops, inside(cpu_ops, ranges), kernels)
    return Match(
        cause=CAUSE,
        also={_ON_CPU: copies_ns} if copies_ns else {},
        advice="Gather more at a time: shard whole blocks (`fully_shard(block)`, FSDP's "
        "`auto_wrap_policy`); in ZeRO-3 raise `stage3_param_persistence_threshold` and "
        "`stage3_prefetch_bucket_size`.",
        gain_ns=exposed(calls, collectives, kernels, causes, step) + copies_ns,
        evidence={
            "calls_per_step": per_step(calls, step.count),
            "median_size_bytes": int(sizes.median()),
        },
    )
