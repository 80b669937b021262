"""The faults of generated traces: what is wrong, what the verdict must say, and the exact cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .expected import Kind
from .generated import Job, Knobs

_SMALL_GPU: dict[str, Any] = {"gpu_scale": 0.15}
"""A small batch: the CPU just keeps ahead of the GPU."""
_GPU, _CPU, _INPUT = "GPU-bound", "CPU-bound", "input-bound"
_COMMUNICATION, _STRAGGLER = "communication-bound", "straggler"
_IDLE, _PYTHON, _BLOCKED = "gpu_idle", "gpu_idle.python", "gpu_idle.blocked"
_WAITING, _TRANSFER = "exposed_communication.waiting", "exposed_communication.transfer"


def _kind(  # noqa: PLR0913, PLR0917 - a line of a table
    name: str,
    limiters: str | tuple[str, ...],
    causes: str | tuple[str, ...],
    words: str,
    values: Mapping[str, tuple[float, ...]],
    has_size: bool = True,
    **always: Any,
) -> Kind:
    """Return a kind whose sizes are the `values` of some knobs; the others are set `always`."""
    sizes = [
        always | dict(zip(values, column, strict=True))
        for column in zip(*values.values(), strict=True)
    ]
    return Kind(
        name=name,
        limiters=(limiters,) if isinstance(limiters, str) else limiters,
        causes=(causes,) if isinstance(causes, str) else causes,
        words=words,
        sizes=tuple(sizes),
        has_size=has_size,
    )


_MS = (3.0, 10.0, 40.0)
_SLOW_OR_BUSY = (_GPU, _CPU)

KINDS = (
    _kind(
        "host-bound launches",
        _CPU,
        _PYTHON,
        "graph|compile|model.py",
        {"dispatch_us": (60, 120, 240)},
        **_SMALL_GPU,
    ),
    _kind(
        "small kernels",
        _SLOW_OR_BUSY,
        _PYTHON,
        "graph|compile|foreach|fuse|update_average",
        {"small_kernels": (300, 1000, 3000)},
    ),
    _kind(
        ".item() in each layer",
        _SLOW_OR_BUSY,
        (_PYTHON, _BLOCKED),
        ".item()|log_norm",
        {"items_per_layer": (2, 5, 12)},
        **_SMALL_GPU,
    ),
    _kind(
        "pageable batch",
        (_GPU, _CPU, _INPUT),
        "exposed_copies.HtoD_pageable",
        "pin_memory",
        {"pageable_mib": (20, 60, 240)},
    ),
    _kind(
        "pageable read-back",
        (*_SLOW_OR_BUSY, "copy-bound"),
        "exposed_copies.DtoH_pageable",
        "pin|non_blocking|metrics",
        {"readback_mib": (20, 60, 240)},
    ),
    _kind(
        "allocation calls",
        _SLOW_OR_BUSY,
        _BLOCKED,
        "cudaFree|cudaMalloc|alloc",
        {"frees": (1, 3, 8)},
    ),
    _kind(
        "slow decode",
        (_INPUT, _GPU),
        "gpu_idle.loading_data",
        "decode|dataset.py",
        {"loader_ms": _MS},
    ),
    _kind(
        "waiting for workers",
        (_INPUT, _GPU),
        "gpu_idle.loading_data",
        "num_workers",
        {"workers_ms": _MS},
    ),
    _kind("checkpoint each step", _SLOW_OR_BUSY, _PYTHON, "checkpoint", {"checkpoint_ms": _MS}),
    _kind(
        "garbage collection",
        _SLOW_OR_BUSY,
        ("gpu_idle.garbage_collection", _PYTHON),  # a call of `gc.collect` is both
        "gc.|garbage",
        {"gc_ms": _MS},
    ),
    # One step does not tell what every step does from what only the first one does.
    _kind(
        "cold loading",
        "not enough recorded",
        (_IDLE, "gpu_computing"),
        "record|warm",
        {"cold_calls": (2, 4, 12)},
        has_size=False,
        steps=1,
    ),
    _kind(
        "unrecorded CPU work",
        (_CPU, "not enough recorded"),
        "gpu_idle.not_recorded",
        "record",
        {"dispatch_us": (60, 120, 240)},
        has_size=False,
        has_operators=False,
        **_SMALL_GPU,
    ),
    _kind(
        "exposed all-reduce",
        (_COMMUNICATION, _GPU),
        _TRANSFER,
        "overlap|bucket|gradient",
        {"exposed_ms": _MS},
        world=4,
    ),
    _kind(
        "custom all-reduce",
        (_COMMUNICATION, _GPU),
        "exposed_communication",
        "",
        {"custom_ms": (3.0, 10.0, 30.0)},  # all of it could run beside computing
        world=4,
    ),
    _kind("straggler, GPU", (_STRAGGLER, _GPU), _WAITING, "rank 3", {"late_gpu_ms": _MS}, world=4),
    _kind(
        "straggler, loading",
        (_STRAGGLER, _INPUT, _GPU),
        (_WAITING, "gpu_idle.loading_data"),
        "rank 3|decode",
        {"late_cpu_ms": _MS},
        world=4,
    ),
    _kind(
        "missing ranks",
        (_COMMUNICATION, _GPU),
        "exposed_communication",
        "of 8|recorded",
        {"late_gpu_ms": _MS},
        world=8,
        recorded=2,
    ),
)

_CLEAN: Mapping[str, Mapping[str, Any]] = {
    "GPU busy": {},
    "CPU runs ahead": {"reads_loss": False},
    "small batch": {"gpu_scale": 0.5},
    "4 ranks": {"world": 4},
    "4 ranks, overlapped": {"world": 4, "overlapped_ms": 3},
    "one step": {"steps": 1},
    "first step initialises": {"first_step_ms": 80},
}
CLEAN = tuple(
    Kind(name=f"clean: {name}", limiters=(_GPU,), sizes=(knobs,)) for name, knobs in _CLEAN.items()
)


def make(kind: Kind, size: int, folder: Path) -> float:
    """Write the traces of one case; return what its fault costs per step, in ms."""
    knobs = Knobs(**kind.sizes[size])
    job = Job(knobs)
    job.write(folder)
    return job.step_ms() - Job(_without_fault(knobs)).step_ms() if kind.causes else 0.0


def _without_fault(knobs: Knobs) -> Knobs:
    """Return the program as it is when nothing is wrong with it; the GPU has the same to do."""
    return Knobs(
        gpu_scale=knobs.gpu_scale,
        world=knobs.world,
        steps=knobs.steps,
        small_kernels=knobs.small_kernels,
        fuses_small=True,
    )
