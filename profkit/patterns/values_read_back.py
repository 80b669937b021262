"""Values read back: `.item()` and the like, which wait until the GPU is done."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import belonging, equal, having, inside, per_step, place
from profkit.patterns.base import Match, Step, charged, pattern


@pattern(
    title="Values read back from the GPU",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#avoid-unnecessary-cpu-gpu-synchronization",
)
def match(
    cpu_ops: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find synchronisations below `aten::_local_scalar_dense`, which `.item()` ends in."""
    reads = having(cpu_ops, r"^aten::_local_scalar_dense$")
    if not reads.any() or kernels.empty:
        return None
    below = inside(cpu_ops, reads)
    calls = belonging(runtime_calls, cpu_ops, below)
    waits = calls & having(runtime_calls, "Synchronize|Memcpy")
    if not waits.any():
        return None
    where = place(cpu_ops, reads)
    names = runtime_calls[waits].groupby(runtime_calls["name"].astype(object)[waits])
    longest = str(names["charged_ns"].sum().idxmax())
    cause = f"gpu_idle.blocked.{longest}"
    # The GPU idles in the call, and until the CPU has launched anew: both are in the cause.
    named = equal(runtime_calls, "name", longest)
    share = (calls & named).sum() / named.sum()
    idle = causes.loc[(causes["id"] == cause).to_numpy(dtype=bool), "gain_ms"].sum()
    held_ns = share * float(idle) * 1e6 * step.count
    copies = {
        f"exposed_copies.{kind}": charged(rows)
        for kind, rows in kernels[belonging(kernels, cpu_ops, below)].groupby(
            kernels["copy_kind"].astype(object)
        )
        if kind
    }
    waited_ns = max(charged(runtime_calls, waits), charged(cpu_ops, reads), held_ns)
    return Match(
        cause=cause,
        advice="Keep the value on the GPU: no `.item()`, `float()`, `bool()` or `print` of a "
        f"tensor in {where or 'the loop'}. Add up with tensors and read every 100 steps.",
        gain_ns=waited_ns + sum(copies.values()),
        place=where,
        confidence=Confidence.HIGH,
        also=copies,
        evidence={"reads_per_step": per_step(reads, step.count)},
    )
