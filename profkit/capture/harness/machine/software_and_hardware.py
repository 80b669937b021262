"""Software and hardware of this machine, which measured numbers depend on."""

import platform
import socket
from pathlib import Path
from typing import Any

import psutil

from profkit.capture.base import Tool, Wrapper, distribution_version
from profkit.capture.harness.machine import nvml
from profkit.capture.harness.ranks.software import Software, collect
from profkit.capture.launchers.base import RankLauncher
from profkit.core.usable_cores import usable_cores

_DISTRIBUTIONS = (
    "torch",
    "numpy",
    "nvtx",
    "triton",
    "deepspeed",
    "accelerate",
    "transformers",
)
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def described(tool: Tool, out: Path, launcher: RankLauncher) -> dict[str, Any]:
    """Return the fields of the record of the capture in `out` on the machine and what ran there.

    Of a command that has not said what it runs with, nothing is known of that.
    """
    own = None if launcher.finds_ranks else Software.of_this_process()
    software = collect(out) or own
    own_versions = {"profkit": distribution_version("profkit")}
    if isinstance(tool, Wrapper):
        own_versions[tool.profiler_name()] = tool.version()
    versions = (_versions(tool, software) if software else {}) | own_versions
    return {
        "machine": {**_hardware(), **(_of_machine(software) if software else {})},
        "versions": {name: version for name, version in versions.items() if version},
        "packages": software.packages if software else {},
    }


def _versions(tool: Tool, software: Software) -> dict[str, str]:
    return {name: software.version(name) for name in (tool.profiler_name(), *_DISTRIBUTIONS)}


def machine() -> dict[str, Any]:
    """Return hardware, drivers and the Python, CUDA and NCCL of this process; "" for missing ones.

    Sizes are in bytes; the NVIDIA GPUs are those of `nvml.devices`.
    """
    return {**_hardware(), **_of_machine(Software.of_this_process())}


def _of_machine(software: Software) -> dict[str, str]:
    return {"python": software.python, **software.builds, "nccl": _nccl(software)}


def _hardware() -> dict[str, Any]:
    """Return the hardware and drivers of this machine."""
    with nvml.opened() as library:
        driver = nvml.system(library) if library else {}
        gpus = nvml.devices(library) if library else []
    return {
        "hostname": socket.gethostname(),
        "os": platform.platform(),
        "cpu": _cpu(),
        "cpu_count": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "shared_memory_bytes": shared_memory_bytes(),
        "gpus": gpus,
        "driver": "",
        "cuda_driver": "",
        **driver,
    }


def shared_memory_bytes(folder: Path = Path("/dev/shm")) -> int:  # noqa: S108 - where Linux has it
    """Return the size of the memory that processes can share; -1 where it has no size."""
    return psutil.disk_usage(str(folder)).total if folder.is_dir() else -1


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _nccl(software: Software) -> str:
    """Return the version of the NCCL that is installed for torch; "" if it is built in or absent.

    Only torch itself knows the one built in, and importing it takes seconds.
    """
    return next(filter(None, map(software.version, _NCCL)), "")
