"""Scalars reduced in each step: all-reduces of a loss or a counter."""

import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind
from profkit.patterns._rows import per_step
from profkit.patterns.base import Match, Step, pattern

_MOST_ELEMENTS = 8


@pattern(
    title="Scalars reduced in each step",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html",
)
def match(
    collectives: pd.DataFrame, kernels: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find all-reduces of at most eight elements."""
    calls = of_kind(collectives, "allreduce")
    calls &= collectives["in_elements"].between(1, _MOST_ELEMENTS).to_numpy(dtype=bool)
    if calls.sum() < step.count:
        return None
    return Match(
        cause=CAUSE,
        advice="Add the loss and the counters up on each rank and call `all_reduce` on one tensor "
        "of them every 100 steps, or with `async_op=True`.",
        gain_ns=exposed(calls, collectives, kernels, causes, step),
        evidence={"calls_per_step": per_step(calls, step.count)},
    )
