"""Loading in the main process: a DataLoader without workers."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Data loaded in the main process",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#enable-asynchronous-data-loading-and-augmentation",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find time in the iterator of a DataLoader with ``num_workers=0``."""
    calls = having(cpu_ops, "_SingleProcessDataLoaderIter")
    if not calls.any():
        return None
    loading = "gpu_idle.loading_data" if len(kernels) else "loading_data"
    return Match(
        cause=loading,
        advice="Create the DataLoader with `num_workers=4` (about a CPU core each), "
        "`persistent_workers=True` and `pin_memory=True`. Batches are then made during the step.",
        gain_ns=time(cpu_ops, inside(cpu_ops, calls)),
        place="DataLoader(num_workers=0)",
        confidence=Confidence.HIGH,
        evidence={"batches_per_step": per_step(calls, step.count)},
    )
