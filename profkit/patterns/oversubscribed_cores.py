"""Oversubscribed cores: operators use more threads than there are cores, and wait for one."""

import pandas as pd

from profkit.core.formatting import counted
from profkit.core.verdict import Confidence
from profkit.patterns.base import Match, Step, charged, pattern


@pattern(
    title="More threads than cores",
    source="https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html",
)
def match(processes: pd.DataFrame, step: Step) -> Match | None:
    """Find operators that wait while the threads of all ranks on the host outnumber its cores.

    Where the ranks alone outnumber them, they go on to wait for one another with a thread each.
    """
    if processes.empty:
        return None
    own = processes.iloc[-1]
    cores, ranks, threads = (
        int(own[name]) for name in ("cores", "ranks_on_host", "operator_threads")
    )
    if threads * ranks <= cores:
        return None
    lasted = processes["end_ns"] - processes["start_ns"]
    recorded = float(lasted.sum()) / (step.ms * 1e6)
    queued_ns = float(processes["queued_ns"].sum()) / recorded * step.count
    share = min(cores / ranks, 1.0)
    too_many = ", and start no more processes than there are cores" if share < 1 else ""
    switches = float(processes["involuntary_switches"].sum())
    return Match(
        cause="cpu_operators",
        advice=f"Operators use {counted(threads, 'thread')} in each of "
        f"{counted(ranks, 'process', 'es')} on {counted(cores, 'usable core')}: set "
        f"`OMP_NUM_THREADS={max(cores // ranks, 1)}` or call "
        f"`torch.set_num_threads({max(cores // ranks, 1)})`{too_many}.",
        gain_ns=min(charged(processes), queued_ns) * share,
        confidence=Confidence.HIGH if share == 1 else Confidence.LOW,
        evidence={
            "threads": threads * ranks,
            "cores": cores,
            "queued_ns_per_step": round(queued_ns / step.count),
            "involuntary_switches_per_step": round(switches / recorded, 1),
        },
    )
