"""Runtime calls that hold the CPU while the GPU works, or while the driver does."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.glob_match import matching, named

SYNCHRONISE = (
    "*Synchronize",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaMemcpyToSymbol",
    "cudaMemcpyFromSymbol",
    "hipMemcpy",
    "hipMemcpyWithStream",
    "cuMemcpy[HD]to[HD]*",
    "urEventWait",
    "urQueueFinish",
)
"""Calls that return when the GPU is done."""

_ALLOCATE = (
    "cudaMalloc*",
    "cudaFree*",
    "cudaHost*lloc",
    "cudaHost*egister",
    "hipMalloc*",
    "hipFree*",
    "hipHost*",
    "cuMemAlloc*",
    "cuMemFree*",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemHost*",
)
_LOAD = (
    "cuModuleLoad*",
    "cuModuleGetFunction",
    "cuLibrary*",
    "cudaLibrary*",
    "hipModuleLoad*",
    "cuLink*",
)
BLOCKING = (*SYNCHRONISE, *_ALLOCATE, *_LOAD)
"""Those, and calls in which the driver allocates, frees or loads code."""

_UNUSUALLY_LONG_NS = 200_000
_COPIES = ("*emcpy*",)
_LAUNCHES = ("*Launch*Kernel*",)
_FREES = ("cudaFree", "hipFree")
_STARTING_NS = 100_000_000


def is_pageable(kernels: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell for each row of `kernels` whether it is a copy from or to memory that is not pinned."""
    return names_pageable(kernels["name"]) & (kernels["kind"] == "copy").to_numpy()


def names_pageable(names: "pd.Series[str]") -> NDArray[np.bool_]:
    """Tell for each of the categorical `names` whether it is one of pageable memory."""
    return named(names, lambda name: "pageable" in name.lower())


def blocked_calls(
    calls: pd.DataFrame, kernels: pd.DataFrame, launched_by: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which `calls` held the CPU; `launched_by` has the call of each of `kernels`, or -1."""
    of_copies = launched_by[is_pageable(kernels)]
    pageable = np.zeros(len(calls), dtype=np.bool_)
    pageable[of_copies[of_copies >= 0]] = True
    return blocks(calls, pageable)


def waits_for_gpu(names: "pd.Series[str]", blocked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which calls wait for the GPU: synchronisations, and copies that hold the CPU."""
    return matching(names, SYNCHRONISE) | (blocked & matching(names, _COPIES))


def may_be_start(
    calls: pd.DataFrame, kernels: pd.DataFrame, launched_by: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which `calls` may be long because they do something for the first time.

    They do not wait for the GPU, launch no kernel that was launched before in the recording, and
    free no memory, unless that takes so long that it starts a context or a library.
    """
    found = ~matching(calls["name"], (*SYNCHRONISE, *_COPIES))
    order = np.argsort(kernels["start_ns"].to_numpy(np.int64), kind="stable")
    again = order[kernels["name"].iloc[order].duplicated().to_numpy()]
    is_again = np.zeros(len(calls) + 1, dtype=np.bool_)
    is_again[launched_by[again]] = True
    found &= ~(is_again[:-1] & matching(calls["name"], _LAUNCHES))
    length = (calls["end_ns"] - calls["start_ns"]).to_numpy(np.int64)
    return found & ((length >= _STARTING_NS) | ~matching(calls["name"], _FREES))


def blocks(calls: pd.DataFrame, pageable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell for each of the runtime `calls` whether the CPU was blocked in it.

    It is in calls that wait, allocate or load; in copies from or to `pageable` memory, which do not
    return before the driver has read it; and in any call that takes unusually long, as a launch
    does that has to load the kernel first, or finds the queue full.
    """
    length = (calls["end_ns"] - calls["start_ns"]).to_numpy(np.int64)
    return matching(calls["name"], BLOCKING) | pageable | (length >= _UNUSUALLY_LONG_NS)
