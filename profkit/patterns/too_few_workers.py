"""Too few workers: the step waits for a DataLoader that has workers already."""

import pandas as pd

from profkit.patterns._rows import cores_of_a_rank, having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern

_FEWEST = 2
_LEAST = 0.05
"""Of the step: a batch that is there has to be handed over as well."""


@pattern(
    title="DataLoader workers too slow",
    source="https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    steps: pd.DataFrame,
    processes: pd.DataFrame,
    step: Step,
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
        advice=f"{_more(processes)}make what workers do for a batch cheaper, `__getitem__` and "
        "`collate_fn`: decode, resize and tokenize ahead of training, in arrays instead of loops.",
        gain_ns=gain_ns,
        place="DataLoader.__next__",
        evidence={"batches_per_step": per_step(calls, step.count)},
    )


def _more(processes: pd.DataFrame) -> str:
    """Return how many workers help, which need a core each, before what else does."""
    if not (cores := cores_of_a_rank(processes)):
        return "Use up to a worker for each CPU core of the rank (`num_workers`); beyond that "
    if cores == 1:
        return "There is one CPU core, which more workers would share: "
    return f"Up to {cores} workers have a CPU core each (`num_workers`); beyond that "
