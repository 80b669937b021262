"""Search for unused parameters: DDP walks the graph and reduces a map in each step."""

import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind
from profkit.patterns._rows import equal, having, per_step
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Search for unused parameters",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.parallel.DistributedDataParallel.html",
)
def match(
    cpu_ops: pd.DataFrame,
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find the all-reduce of int32 by which DDP learns which parameters were used."""
    calls = of_kind(collectives, "allreduce")
    calls &= equal(collectives, "dtype", "int32")
    if calls.sum() < step.count or not having(cpu_ops, "^DistributedDataParallel").any():
        return None
    return Match(
        cause=CAUSE,
        advice="Drop `find_unused_parameters=True` if every parameter gets a gradient, or set "
        "`static_graph=True`.",
        gain_ns=exposed(calls, collectives, kernels, causes, step),
        evidence={"calls_per_step": per_step(calls, step.count)},
    )
