"""Too few workers: the step waits for a DataLoader that has workers already."""

import pandas as pd

from profkit.patterns._rows import having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern

_FEWEST = 2
_LEAST = 0.05
"""Of the step: a batch that is there has to be handed over as well."""


@pattern(
    title="DataLoader workers too slow",
    source="https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, steps: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in the iterator of a DataLoader that waits for its workers.

    Not where that takes little of the step. The only batch of a recording without steps is the
    first, for which they start.
    """
    calls = having(cpu_ops, "_MultiProcessingDataLoaderIter")
    if calls.sum() < (_FEWEST if steps.empty else 1):
        return None
    gain_ns = time(cpu_ops, inside(cpu_ops, calls))
    if gain_ns < _LEAST * step.ms * 1e6 * step.count:
        return None
    loading = "gpu_idle.loading_data" if len(kernels) else "loading_data"
    return Match(
        cause=loading,
        advice="Use as many workers as the rank has CPU cores (`num_workers`, no more), a larger "
        "`prefetch_factor`, or a cheaper `__getitem__`: decode and resize ahead of training.",
        gain_ns=gain_ns,
        place="DataLoader.__next__",
        evidence={"batches_per_step": per_step(calls, step.count)},
    )
