"""A nearly empty GPU: long kernels of so few threads that most of it has nothing to do."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.formatting import counted
from profkit.core.verdict import Confidence
from profkit.patterns._rows import computing, equal, having, per_step
from profkit.patterns._shapes import elements, listed
from profkit.patterns.base import CHARGED, Match, Step, pattern
from profkit.tables.kernel_names import function

_LEAST_NS = 20_000
"""Shorter kernels are hardly ended sooner by more threads."""

_THREADS_OF_ONE = 128
"""Threads at work at once that each multiprocessor needs at least: a warp for each scheduler."""

_USUAL = 80
"""Multiprocessors where their number was not recorded."""


@pattern(
    title="Kernels that leave the GPU nearly empty",
    source="https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#thread-and-block-heuristics",
)
def match(
    kernels: pd.DataFrame, cpu_ops: pd.DataFrame, devices: pd.DataFrame, step: Step
) -> Match | None:
    """Find kernels that are long, and have fewer threads than would keep all of a GPU at work."""
    threads = _sizes(kernels, "grid") * _sizes(kernels, "block")
    recorded = int(devices["processors"].max()) if len(devices) else 0
    processors = recorded if recorded > 0 else _USUAL
    enough = processors * _THREADS_OF_ONE
    lasted = (kernels["end_ns"] - kernels["start_ns"]).to_numpy(np.int64)
    chosen = equal(kernels, "kind", "compute") & (lasted >= _LEAST_NS)
    chosen &= (threads > 0) & (threads < enough)
    gain_ns = kernels[CHARGED].to_numpy(np.int64) * np.where(chosen, 1 - threads / enough, 0.0)
    if not gain_ns.any():
        return None
    rows = kernels[chosen]
    functions = rows["name"].astype(str).map(function).to_numpy(object)
    largest = str(pd.Series(gain_ns[chosen]).groupby(functions).sum().idxmax())
    own = rows[functions == largest]
    size = " of ".join(
        _counted(_sizes(own, name), what) for name, what in (("grid", "block"), ("block", "thread"))
    )
    more = (
        "give it more to do in one call, as with a larger batch"
        if having(cpu_ops, "^aten::").any()
        else "divide its work over more blocks"
    )
    return Match(
        cause=computing(kernels[chosen], cpu_ops),
        advice=f"{largest} runs in {size}, on a GPU with {processors} multiprocessors: {more}.",
        gain_ns=float(gain_ns.sum()),
        confidence=Confidence.HIGH,
        evidence={"kernels_per_step": per_step(chosen, step.count)},
    )


def _counted(sizes: NDArray[np.int64], what: str) -> str:
    """Return how many there are in each of several launches: "2 to 90 blocks"."""
    least, most = int(sizes.min()), int(sizes.max())
    return f"{least:,} to {counted(most, what)}" if least < most else counted(most, what)


def _sizes(kernels: pd.DataFrame, column: str) -> NDArray[np.int64]:
    """Return how many blocks or threads each launch has, 0 where that was not recorded."""
    text = kernels[column].astype("category").cat
    sizes = [elements(found) if (found := listed(str(one))) else 0 for one in text.categories]
    return np.array([*sizes, 0], dtype=np.int64)[text.codes.to_numpy()]
