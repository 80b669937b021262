"""Causes and actions as they hold for a program that is not one of PyTorch, such as one in C++."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from profkit.analyze._cause_advice import is_bound_by_launches
from profkit.analyze.division import gpu
from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Cause

PROGRAM = "program"
"""The check that fails where PyTorch was not found."""

_LAUNCHING = "gpu_idle.python"
_FEWEST_LAUNCHES = 3
_ADVICE = (
    (
        re.compile(r"(?:.*\.)?blocked\..*(?:[mM]alloc|[fF]ree|Host|MemCreate|MemMap).*"),
        "Allocate once and reuse, or from a pool: `cudaMallocAsync`.",
    ),
    (
        re.compile(r"(?:.*\.)?blocked\..*emcpyAsync.*"),
        "Pageable memory blocks the CPU: copy from and to pinned memory, of `cudaMallocHost`.",
    ),
    (
        re.compile(r"(?:.*\.)?blocked\..*(?:Synchronize|emcpy).*"),
        "Wait for the GPU less often: only before results are used.",
    ),
    (re.compile(r"(?:.*\.)?blocked\..*|exposed_copies\.UVM .*|gpu_idle\.not_started"), ""),
    (
        re.compile(r"exposed_copies\.HtoD.*"),
        "Copy the next input on another stream, from pinned memory: `cudaMallocHost`.",
    ),
    (
        re.compile(r"exposed_copies\.DtoH.*"),
        "Keep results on the GPU, copy fewer of them, or on another stream.",
    ),
)
"""By cause, "" for the advice that it has anyway; of others nothing is said."""

_OF_PATTERNS = {
    "scalars_that_block": "Pass them as arguments of the kernel, or send all of them in one copy.",
    "nearly_empty_gpu": "",
}
"""The same by pattern."""


def named(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes without Python: what runs between launches is any code."""
    title = "CPU work beside the GPU" if _are_few(causes) else "CPU work between launches"
    return [replace(one, title=title) if one.id == _LAUNCHING else one for one in causes]


def in_general(actions: Iterable[Action], causes: Sequence[Cause]) -> Iterator[Action]:
    """Yield the actions that any program can take, in its words; of each cause the first.

    Where hardly anything is launched, the GPU waits for no launches.
    """
    said = {_LAUNCHING} if _are_few(causes) else set[str]()
    for action in actions:
        if action.cause not in said and (changed := _in_general(action)) is not None:
            said.add(action.cause)
            yield changed


def _are_few(causes: Iterable[Cause]) -> bool:
    """Tell whether kernels are too few for the GPU to wait for launches between them."""
    calls = [
        float(one.evidence.get("calls_per_step", 0.0))
        for one in causes
        if one.id.startswith(f"{gpu.COMPUTING}.")
    ]
    return 0 < sum(calls) < _FEWEST_LAUNCHES


def _in_general(action: Action) -> Action | None:
    if action.cause == _LAUNCHING:
        title, advice = "GPU waits for the CPU to launch", _fewer_launches(action)
        return replace(action, title=title, advice=advice, source="", pattern="")
    advised = (advice for cause, advice in _ADVICE if cause.fullmatch(action.cause))
    if (found := _OF_PATTERNS.get(action.pattern, next(advised, None))) is None:
        return None
    return replace(action, advice=found, source="", pattern="") if found else action


def _fewer_launches(action: Action) -> str:
    if action.pattern or is_bound_by_launches(action):
        return "Launch fewer, larger kernels, as fused ones or a CUDA graph."
    longest = milliseconds(float(action.evidence.get("longest_ns", 0)) / 1e6)
    return (
        f"Do less on the CPU between launches, or on another thread: the longest gap is {longest}"
        " ms."
    )
