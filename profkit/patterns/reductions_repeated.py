"""Repeated all-reduces: gradients synchronised in each micro-batch of an optimizer step."""

import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind
from profkit.patterns._rows import having, per_step
from profkit.patterns.base import Match, Step, pattern

_LEAST_BYTES = 1 << 20


@pattern(
    title="Gradients synchronised in each micro-batch",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#skip-unnecessary-all-reduce-if-training-with-distributeddataparallel-and-gradient-accumulation",
)
def match(
    cpu_ops: pd.DataFrame,
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find all-reduces of equal sizes as often as DDP's forward, more than once a step."""
    passes = round(int(having(cpu_ops, r"^DistributedDataParallel\.forward").sum()) / step.count)
    calls = of_kind(collectives, "allreduce")
    calls &= (collectives["size_bytes"] >= _LEAST_BYTES).to_numpy(dtype=bool)
    if passes <= 1 or not calls.any():
        return None
    of_size = collectives["size_bytes"][calls].value_counts() / step.count
    if (of_size < passes).any():
        return None
    return Match(
        cause=CAUSE,
        advice="Wrap all but the last micro-batch in `with model.no_sync():`.",
        gain_ns=exposed(calls, collectives, kernels, causes, step) * (1 - 1 / passes),
        evidence={"micro_batches": passes, "calls_per_step": per_step(calls, step.count)},
    )
