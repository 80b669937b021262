"""Short kernels: the GPU is done with each before the CPU has launched the next."""

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import equal, having, inside, operators_of, per_step
from profkit.patterns.base import Match, Step, pattern

_MOST_MEDIAN_NS = 10_000
_LEAST_KERNELS = 20
_LEAST_IDLE = 0.2
SHORT_GAP_NS = 1_000_000
"""Gaps of a GPU from which on they are none that many launches leave."""

_MOSTLY = 0.5
_OF_SERVERS = r"(?:^|/)(?:vllm|sglang)/.*model_runner|^(?:void )?vllm::"
_READS = r"^aten::(?:_local_scalar_dense|nonzero|masked_select|_unique2|unique_consecutive)$"
_MOST_READS = 10
"""How often a step may wait for a value of the GPU, as for its loss, and be recorded as a graph."""


@pattern(
    title="Short kernels, bound by launches",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
    calls=_OF_SERVERS,
)
def match(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    kernels: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find many short kernels outside CUDA graphs where the GPU waits for Python and launches.

    Not where it waits in few long gaps instead, in which the CPU does something else.
    """
    idle = causes.loc[causes["id"].astype(str) == "gpu_idle.python", "ms_per_step"]
    single = kernels[(kernels["graph"] < 0).to_numpy(dtype=bool)]
    if idle.empty or len(single) < _LEAST_KERNELS * step.count:
        return None
    median = float((single["end_ns"] - single["start_ns"]).median())
    if median > _MOST_MEDIAN_NS or float(idle.iloc[0]) < _LEAST_IDLE * step.ms:
        return None
    idle_ns = float(idle.iloc[0]) * 1e6 * step.count
    between_ns = _between_ns(kernels)
    if between_ns < _MOSTLY * idle_ns:
        return None
    advice = 'Use `torch.compile(model, mode="reduce-overhead")` or a larger batch.'
    if having(kernels, _OF_SERVERS).any() or having(python_calls, _OF_SERVERS).any():
        advice = (
            "Let the server replay CUDA graphs, without `enforce_eager` in vLLM and without "
            "`--disable-cuda-graph` in SGLang, or batch more requests."
        )
    waits = operators_of(runtime_calls[having(runtime_calls, "Synchronize|Memcpy")], cpu_ops)
    # Values that are on the CPU already are read as well.
    reads = per_step(inside(cpu_ops, having(cpu_ops, _READS)) & waits, step.count)
    if reads > _MOST_READS:
        advice = (
            f"Take out `.item()` and `nonzero` ({reads:,.0f} in a step), which wait for the GPU "
            "and rule out CUDA graphs, or use larger batches."
        )
    return Match(
        cause="gpu_idle.python",
        advice=f"{advice} CUDA graphs by hand: `torch.cuda.make_graphed_callables`.",
        gain_ns=min(idle_ns, between_ns),
        confidence=Confidence.HIGH,
        evidence={
            "kernels_per_step": round(len(single) / step.count, 1),
            "median_kernel_us": round(median / 1e3, 1),
        },
    )


def _between_ns(kernels: pd.DataFrame) -> float:
    """Return the time of short gaps between kernels, in which no other one runs, in ns.

    Communication does not count as work: it may hide that nothing else is launched.
    """
    kernels = kernels[~equal(kernels, "kind", "communication")]
    order = np.lexsort((kernels["start_ns"], kernels["repeat"]))
    repeat, start, end = (
        kernels[name].to_numpy(np.int64)[order] for name in ("repeat", "start_ns", "end_ns")
    )
    gaps = (start[1:] - np.maximum.accumulate(end)[:-1])[repeat[1:] == repeat[:-1]]
    return float(gaps[(gaps > 0) & (gaps < SHORT_GAP_NS)].sum())
