"""Start-up in steps: kernels loaded at first use, contexts and streams created."""

import pandas as pd

from profkit.patterns._rows import having
from profkit.patterns.base import Match, charged, pattern

_LOADING = r"^cu(?:Library|Module)(?:Load|GetFunction|LoadData)|^hipModuleLoad"
_ONCE = (
    r"LaunchKernel|StreamPriorityRange|StreamCreate|FuncGetAttributes|DeviceProperties|OccupancyMax"
)
_ONCE_NS = 1_000_000
_MEMORY, _MEMORY_NS = r"^(?:cuda|hip)(?:Malloc|Free|Host)", 100_000_000


@pattern(
    title="Start-up inside the recording",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#lazy-loading",
)
def match(runtime_calls: pd.DataFrame) -> Match | None:
    """Find calls that load code, and others that take long only once."""
    length = (runtime_calls["end_ns"] - runtime_calls["start_ns"]).to_numpy()
    once = having(runtime_calls, _LOADING)
    once |= having(runtime_calls, _ONCE) & (length >= _ONCE_NS)
    once |= having(runtime_calls, _MEMORY) & (length >= _MEMORY_NS)
    if not once.any():
        return None
    rows = runtime_calls[once]
    return Match(
        cause="gpu_idle.start_up",
        advice="Paid once: run a few steps before recording (`warmup` of the profiler's schedule); "
        "where the first request must be fast, set `CUDA_MODULE_LOADING=EAGER`.",
        gain_ns=charged(rows),
        evidence={"calls": len(rows), "longest_ms": round(float(length[once].max()) / 1e6, 3)},
    )
