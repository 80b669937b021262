"""Start-up in steps: kernels loaded at first use, contexts and streams created."""

import pandas as pd

from profkit.core.formatting import milliseconds
from profkit.patterns._rows import Chosen, having
from profkit.patterns.base import Match, charged, pattern

_LOADING = r"^cu(?:Library|Module)(?:Load|GetFunction|LoadData)|^hipModuleLoad"
_LAUNCH = r"Launch(?:Cooperative)?Kernel"
_ONCE = (
    rf"{_LAUNCH}|StreamPriorityRange|StreamCreate|FuncGetAttributes|DeviceProperties|OccupancyMax"
)
_ONCE_NS = 1_000_000
_MEMORY, _MEMORY_NS = r"^(?:cuda|hip)(?:Malloc|Free|Host)", 100_000_000


@pattern(
    title="Start-up inside the recording",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#lazy-loading",
)
def match(runtime_calls: pd.DataFrame, kernels: pd.DataFrame) -> Match | None:
    """Find calls that load code, and others that take long only once."""
    length = (runtime_calls["end_ns"] - runtime_calls["start_ns"]).to_numpy()
    once = having(runtime_calls, _LOADING)
    once |= having(runtime_calls, _ONCE) & (length >= _ONCE_NS)
    once |= having(runtime_calls, _MEMORY) & (length >= _MEMORY_NS)
    once &= ~_launches_again(runtime_calls, kernels)
    if not once.any():
        return None
    rows = runtime_calls[once]
    longest = int((rows["end_ns"] - rows["start_ns"]).to_numpy().argmax())
    longest_ms = float(length[once].max()) / 1e6
    call = str(rows["name"].iloc[longest])
    loads = having(rows, f"{_LAUNCH}|{_LOADING}")[longest]
    does = "loads code," if loads else "takes"
    return Match(
        cause="gpu_idle.start_up",
        advice=f"`{call}` {does} up to {milliseconds(longest_ms)} ms: run a few steps first "
        "(`warmup` of the schedule). Where the first request must be fast, set "
        "`CUDA_MODULE_LOADING=EAGER`.",
        gain_ns=charged(rows),
        evidence={"calls": len(rows), "longest_ms": round(longest_ms, 3)},
    )


def _launches_again(runtime_calls: pd.DataFrame, kernels: pd.DataFrame) -> Chosen:
    """Choose the calls that launch a kernel which ran before, so that it is loaded."""
    ordered = kernels.sort_values("start_ns", kind="stable")
    again = ordered["correlation"][ordered["name"].duplicated().to_numpy()]
    is_again = runtime_calls["correlation"].isin(again[again > 0]).to_numpy(bool)
    return having(runtime_calls, _LAUNCH) & is_again
