"""Versions and settings of a machine that do not go together, for any tool."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from profkit.capture.base import Problem

# Docker's default is 64 MiB.
_LEAST_SHARED_BYTES = 1 << 30
# Measured with Nsight Systems 2022.4 to 2023.4, which record ranges of nvtx 0.2.11 and not of
# 0.2.12. `profkit.capture.harness.ranks.nvtx_ranges` has the reason, and a way around it.
_NVTX_SINCE = (0, 2, 12)
_NSYS_UNTIL = (2023, 4)


def of_machine(machine: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield causes of failures, or of runs without the GPU, in `software_and_hardware.machine`."""
    shared = machine["shared_memory_bytes"]
    if 0 <= shared < _LEAST_SHARED_BYTES:
        yield Problem(
            kind="missing",
            what=f"shared memory is {shared >> 20} MiB, which workers of a DataLoader and NCCL"
            " use up",
            advice="docker run --shm-size=8g, or --ipc=host",
            stops=False,
        )
    built, driver = machine["cuda"], machine["cuda_driver"]
    if machine["gpus"] and not (built or machine.get("hip")):
        yield Problem(
            kind="incompatible",
            what="torch is built for the CPU alone, and this machine has a GPU",
            advice="install a build of torch for CUDA",
            stops=False,
        )
    if built and driver and _numbers(built)[0] > _numbers(driver)[0]:
        yield Problem(
            kind="incompatible",
            what=f"torch is built for CUDA {built}, and the driver runs CUDA up to {driver}",
            advice="update the driver, or install a build of torch for an older CUDA",
            stops=False,
        )


def nvtx_ranges(nvtx: str, nsys: str) -> Iterator[Problem]:
    """Yield a problem if this Nsight Systems cannot record ranges of this version of nvtx."""
    if nvtx and nsys and _numbers(nvtx) >= _NVTX_SINCE and _numbers(nsys)[:2] <= _NSYS_UNTIL:
        yield Problem(
            kind="incompatible",
            what=f"Nsight Systems {nsys} drops what a program itself marks with nvtx {nvtx};"
            " profkit's own steps and phases are in its reports",
            advice="pip install 'nvtx<0.2.12', or install Nsight Systems 2024.1 or newer",
            stops=False,
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, 0.2.12rc1 being 0.2.12."""
    return tuple(map(int, re.findall(r"\d+", version)[:3])) or (0,)
