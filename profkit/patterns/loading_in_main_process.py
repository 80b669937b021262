"""Loading in the main process: a DataLoader without workers."""

import math

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern

_MOST_WORKERS = 16
"""More for a rank are no advice: then a batch has to get cheaper, as beyond the cores."""
HANDED_OVER_MS = 0.5
"""What it costs the main process to take a batch from a worker, about: sooner made, none helps."""


@pattern(
    title="Data loaded in the main process",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#enable-asynchronous-data-loading-and-augmentation",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, processes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in the iterator of a DataLoader with ``num_workers=0``."""
    calls = having(cpu_ops, "_SingleProcessDataLoaderIter")
    if not calls.any():
        return None
    has_gpu = not kernels.empty
    gain_ns = time(cpu_ops, inside(cpu_ops, calls))
    if gain_ns < HANDED_OVER_MS * 1e6 * calls.sum():
        return None
    loading_ms = gain_ns / 1e6 / step.count
    workers = _workers(loading_ms, step.ms)
    return Match(
        cause="gpu_idle.loading_data" if has_gpu else "loading_data",
        advice=_advice(workers, _cores(processes), has_gpu=has_gpu),
        gain_ns=gain_ns,
        place="DataLoader(num_workers=0)",
        confidence=Confidence.HIGH,
        evidence={"batches_per_step": per_step(calls, step.count)},
    )


def _workers(loading_ms: float, step_ms: float) -> int:
    """Return one worker more than keep up with the rest of the step."""
    rest_ms = max(step_ms - loading_ms, loading_ms / (_MOST_WORKERS - 1))
    return math.ceil(loading_ms / rest_ms) + 1


def _cores(processes: pd.DataFrame) -> int:
    """Return the cores that there are for each rank, as many as workers at most if not known."""
    if processes.empty or (own := processes.iloc[-1])["cores"] < 1:
        return _MOST_WORKERS
    return max(int(own["cores"]) // max(int(own["ranks_on_host"]), 1), 1)


def _advice(workers: int, cores: int, *, has_gpu: bool) -> str:
    pinned = ", `persistent_workers=True` and `pin_memory=True`"
    cheaper = (
        f" That is one for each core; {workers} would keep up with the step, so make "
        "`__getitem__` cheaper as well."
        if workers > cores
        else " Batches are then made during the step."
    )
    return (
        f"Create the DataLoader with `num_workers={min(workers, cores)}` (about a CPU core each)"
        f"{pinned if has_gpu else ' and `persistent_workers=True`'}.{cheaper}"
    )
