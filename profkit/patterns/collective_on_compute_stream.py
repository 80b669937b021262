"""Collectives between kernels: communication on the stream that computes, so never beside it."""

import pandas as pd

from profkit.patterns.base import Match, Step, charged, pattern


@pattern(
    title="Communication on the computing stream",
    source="https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations",
)
def match(kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find communication kernels on the stream with most of the computing kernels."""
    kind = kernels["kind"].astype(object)
    computing = kernels["stream"][(kind == "compute").to_numpy(dtype=bool)]
    if computing.empty:
        return None
    same = ((kind == "communication") & (kernels["stream"] == computing.mode().iloc[0])).to_numpy(
        dtype=bool
    )
    if not same.any():
        return None
    return Match(
        cause="exposed_communication",
        advice="Start collectives with `async_op=True` and wait where the result is needed, or let "
        "DDP or FSDP start them from the backward pass: they then run beside computing.",
        gain_ns=min(charged(kernels, same), charged(kernels, ~same)),
        evidence={"kernels_per_step": round(int(same.sum()) / step.count, 1)},
    )
