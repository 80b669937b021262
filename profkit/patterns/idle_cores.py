"""Idle cores: operators may use fewer threads than there are cores, and nothing else uses them."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import equal, having, per_time
from profkit.patterns.base import CHARGED, Match, pattern

_LEAST_NS = 100_000
"""Operators that take less are not divided among threads, or gain nothing by it."""

_BUSY = 1.25
"""Cores in use, of those that operators may use, above which other threads have work as well."""

_ALIKE = 0.5
"""Time in operators, of that of the thread with most, above which another one is at work too."""

_QUEUED = 0.1
"""Share of its time in which a program had no core, above which other programs use the cores."""


@pattern(
    title="Fewer threads than cores",
    source="https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html",
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, processes: pd.DataFrame) -> Match | None:
    """Find long operators while at least half of the cores have no thread of an operator.

    PyTorch's own choice is a thread for each physical core, which is half of the cores where each
    runs two threads. Just half of them counts only if operators have a single thread, and is
    unsure: two cores may be one.
    """
    if processes.empty:
        return None
    own = processes.iloc[-1]
    cores, ranks, threads = (
        int(own[name]) for name in ("cores", "ranks_on_host", "operator_threads")
    )
    may_be_default = threads * ranks * 2 == cores
    if threads * ranks * 2 > cores or (may_be_default and threads > 1):
        return None
    in_use, queued = (per_time(processes, name) for name in ("cpu_ns", "queued_ns"))
    if in_use > threads * _BUSY or queued > _QUEUED:
        return None
    of_torch = cpu_ops[having(cpu_ops, "^aten::")]
    if threads * ranks * _calling_threads(of_torch) >= cores:
        return None
    # One that lost its core for a while is no long operator.
    alike = of_torch.groupby(["name", "input_shapes"], observed=True, dropna=False)[CHARGED]
    long_ns = float(of_torch[CHARGED][alike.transform("median") >= _LEAST_NS].sum())
    return Match(
        cause="cpu_operators",
        advice=f"Operators use {threads} of {cores // ranks} cores: set `OMP_NUM_THREADS`, which "
        f"launchers may set to 1, or `torch.set_num_threads` to {cores // ranks}, and measure "
        "again.",
        gain_ns=long_ns * (1 - threads * ranks / cores),
        confidence=Confidence.LOW if may_be_default else Confidence.MEDIUM,
        evidence={"threads": threads * ranks, "cores": cores, "cores_in_use": round(in_use, 2)},
    )


def _calling_threads(of_torch: pd.DataFrame) -> int:
    """Return how many threads of the program call operators, each of which may use its own."""
    own = of_torch[~equal(of_torch, "phase", "backward")]
    time_ns = (own["end_ns"] - own["start_ns"]).groupby(own["tid"]).sum()
    return int((time_ns > _ALIKE * time_ns.max()).sum())
