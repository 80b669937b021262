"""Code loaded in steps: kernels that the driver loads at their first use."""

import pandas as pd

from profkit.patterns._rows import having
from profkit.patterns.base import CHARGED, Match, charged, pattern

_LOADING = r"^cu(?:Library|Module)(?:Load|GetFunction|LoadData)|^hipModuleLoad"
_LAUNCHING = r"LaunchKernel"
_LONG_NS = 1_000_000


@pattern(
    title="Kernels loaded at first use",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#lazy-loading",
)
def match(runtime_calls: pd.DataFrame) -> Match | None:
    """Find calls that load code, and launches of 1 ms or more."""
    length = (runtime_calls["end_ns"] - runtime_calls["start_ns"]).to_numpy()
    cold = having(runtime_calls, _LOADING)
    cold |= having(runtime_calls, _LAUNCHING) & (length >= _LONG_NS)
    if not cold.any():
        return None
    rows = runtime_calls[cold]
    largest = str(rows.groupby(rows["name"].astype(object))[CHARGED].sum().idxmax())
    return Match(
        cause=f"gpu_idle.blocked.{largest}",
        advice="Paid once: run a few steps before recording (`warmup` of the profiler's schedule); "
        "where the first request must be fast, set `CUDA_MODULE_LOADING=EAGER`.",
        gain_ns=charged(rows),
        evidence={"calls": len(rows), "longest_ms": round(float(length[cold].max()) / 1e6, 3)},
    )
