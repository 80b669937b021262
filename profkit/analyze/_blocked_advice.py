"""What to do about a call that holds the CPU: it depends on what the call does."""

import re

from profkit.analyze.division.phases import inside
from profkit.core.formatting import milliseconds
from profkit.core.verdict import Cause

_SYNC = re.compile(r"Synchronize|cudaMemcpy$|hipMemcpy|urEventWait|urQueueFinish")
_OF_EVENT = re.compile(r"EventSynchronize")
_NO_VALUES = "Avoid `.item()`, `.cpu()` and prints of GPU values"
_LATER = "Wait for events, such as those for timing, after the steps"
_ALLOCATE = re.compile(r"[mM]alloc|[fF]ree$|FreeAsync|MemCreate|MemMap|MemSetAccess|MemUnmap|Host")
_FREE = re.compile(r"^(?:cuda|hip)Free$")
_LOAD = re.compile(r"Module|Library|Link|LaunchKernel|hipLaunch|FuncGetAttr|Stream.*Range|Create")
_OF_FREES = (
    "Memory is given back to the driver, by `torch.cuda.empty_cache()` or as the GPU is full: "
    "leave that call out, use less memory, or try"
)
_OF_ALLOCATIONS = (
    "Allocate once and reuse: is the caching allocator off (PYTORCH_NO_CUDA_MEMORY_CACHING), or "
    "full? Try"
)


def at_place(cause: Cause, text: str) -> str:
    """Return `text` with the place of the cause, if that is known."""
    return f"{text} {inside(cause.place)}" if cause.place else text


def _calls_are(cause: Cause) -> str:
    """Return where the calls of a cause are, after other words; "" if that is unknown."""
    where = cause.place or str(cause.evidence.get("operator", ""))
    return f"; calls are {inside(where)}" if where else ""


def blocked(cause: Cause) -> str:
    """Return the advice on a call that blocks the CPU."""
    call = cause.id.rpartition(".")[2]
    if _ALLOCATE.search(call):
        why = _OF_FREES if _FREE.search(call) else _OF_ALLOCATIONS
        return f"{why} `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`{_calls_are(cause)}."
    if "emcpyAsync" in call:
        return (
            at_place(
                cause,
                "Pageable memory blocks the CPU: set `pin_memory=True` and `non_blocking=True` for "
                "inputs, and leave out `.cpu()` for results",
            )
            + "."
        )
    if _SYNC.search(call):
        operator = str(cause.evidence.get("operator", ""))
        made = f" made by `{operator}`" if operator else ""
        less = _LATER if _OF_EVENT.search(call) else _NO_VALUES
        return f"{at_place(cause, f'{less}: {call}{made}')}."
    if cause.evidence.get("first_launches", 1) == 0:
        return (
            f"{at_place(cause, f'`{call}` blocks')}, of kernels that ran before: the queue of "
            "launches is full, or another thread or process holds the driver. Launch fewer, "
            "larger kernels; `nsys profile --trace=cuda,osrt` shows who holds it."
        )
    if _LOAD.search(call):
        return (
            "Warm up before timing, or set `CUDA_MODULE_LOADING=EAGER`: the first launch of a "
            "kernel loads its code."
        )
    return at_place(cause, f"Call {call} less often") + "."


def not_started_title(cause: Cause) -> str:
    """Return what is wrong where the GPU does not begin what was launched."""
    is_short = "between_kernels_ns" in cause.evidence
    return "Gaps between short kernels" if is_short else "Launched work does not start"


def not_started(cause: Cause) -> str:
    """Return the advice on work that was launched and that the GPU does not begin."""
    if "between_kernels_ns" in cause.evidence:
        pause = float(cause.evidence["between_kernels_ns"]) / 1e3
        return (
            f"The GPU takes {pause:.1f} us from one kernel to the next, "
            f"{float(cause.evidence['gaps_per_step']):,.0f} times: use fewer, larger kernels, "
            "as fused ones or `torch.compile`."
        )
    call = cause.evidence.get("blocked_in", "")
    longest = milliseconds(float(cause.evidence.get("longest_ns", 0)) / 1e6)
    if cause.evidence.get("streams") == 1:
        return (
            f"It waits for no other stream, up to {longest} ms at a time: another program has the "
            "GPU, as `nvidia-smi` or `rocm-smi` shows, or its driver sends work in batches, as on "
            "Windows and WSL."
        )
    find = "ind what the stream waits for, an event of another stream or work from before."
    return f"The CPU is blocked in {call} meanwhile: f{find}" if call else f"F{find}"


def migrated(cause: Cause) -> str:
    """Return the advice on pages that move when they are touched, by where they are needed."""
    if cause.id.endswith("toH"):
        return (
            "Prefetch it to the CPU before it is read there (`cudaMemPrefetchAsync` to "
            "`cudaCpuDeviceId`), or copy all that is needed at once: the CPU stops at each missing "
            "page."
        )
    return (
        "Prefetch it to the GPU before the kernels that use it (`cudaMemPrefetchAsync`), or keep "
        "it there: they stop at each missing page."
    )
