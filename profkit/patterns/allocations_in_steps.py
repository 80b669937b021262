"""Allocations in steps: GPU memory from the driver, where the allocator should have it."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import belonging, having, per_step
from profkit.patterns.base import CHARGED, Match, Step, charged, pattern

_CALLS = r"^(?:cudaMalloc|cudaFree|hipMalloc|hipFree|cuMem(?:Create|Map|Unmap|SetAccess|Release))"
_FREES = r"^(?:cudaFree|hipFree|cuMem(?:Unmap|Release))$"
_MAKES_ROOM = r"^aten::(?:empty|resize_|_efficientzerotensor)"
_MOST_OF_ONE, _MOSTLY = 0.6, 0.5
_LEAVE_IT = (
    "Leave memory to PyTorch's allocator: unset `PYTORCH_NO_CUDA_MEMORY_CACHING`, call no "
    "`empty_cache()`, set `PYTORCH_ALLOC_CONF=expandable_segments:True` where sizes change."
)
_IS_FULL = (
    "The GPU's memory is full, so that the allocator frees what it has kept in order to allocate: "
    "use less, as by a smaller batch or activation checkpointing, or waste less of it by "
    "`PYTORCH_ALLOC_CONF=expandable_segments:True`."
)


@pattern(
    title="Memory allocated from the driver in steps",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
)
def match(cpu_ops: pd.DataFrame, runtime_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find calls that allocate or free GPU memory in the steps that count.

    Memory is full where operators that allocate free some: tensors are freed outside of these.
    """
    calls = having(runtime_calls, _CALLS)
    if not calls.any():
        return None
    rows = runtime_calls[calls]
    if rows[CHARGED].max() > _MOST_OF_ONE * rows[CHARGED].sum():
        # A single long one is start-up: of cuDNN, or of the context.
        return None
    frees = having(rows, _FREES)
    in_need = frees & belonging(rows, cpu_ops, having(cpu_ops, _MAKES_ROOM))
    is_full = in_need.sum() > _MOSTLY * frees.sum()
    by_call = rows.groupby(rows["name"].astype(object))[CHARGED].sum()
    largest = str(by_call.idxmax())
    return Match(
        cause=f"gpu_idle.blocked.{largest}",
        also={
            f"gpu_idle.blocked.{name}": float(time) for name, time in by_call.drop(largest).items()
        },
        advice=_IS_FULL if is_full else _LEAVE_IT,
        gain_ns=charged(rows),
        confidence=Confidence.HIGH,
        evidence={"calls_per_step": per_step(calls, step.count), "call": largest},
    )
