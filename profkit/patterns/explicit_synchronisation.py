"""Explicit synchronisation: `torch.cuda.synchronize()` in each step."""

import pandas as pd

from profkit.patterns._rows import having, per_step
from profkit.patterns.base import CHARGED, Match, Step, charged, pattern


@pattern(
    title="Explicit synchronisation in each step",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#avoid-unnecessary-cpu-gpu-synchronization",
)
def match(runtime_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find calls that wait for the whole GPU."""
    calls = having(runtime_calls, r"^(?:cuda|hip)DeviceSynchronize|^cuCtxSynchronize")
    # The profiler itself makes one when it stops.
    if calls.sum() < max(2, step.count):
        return None
    rows = runtime_calls[calls]
    return Match(
        cause=f"gpu_idle.blocked.{rows.groupby(rows['name'].astype(object))[CHARGED].sum().idxmax()}",
        advice="Remove `torch.cuda.synchronize()` from the step; measure time with "
        "`torch.cuda.Event(enable_timing=True)`.",
        gain_ns=charged(rows),
        evidence={"calls_per_step": per_step(calls, step.count)},
    )
