"""Software and hardware of this machine, which measured numbers depend on."""

import importlib.metadata
import importlib.util
import platform
import runpy
import socket
from pathlib import Path
from typing import Any

import psutil

from profkit.capture._core_usage import usable_cores
from profkit.capture.base import Tool
from profkit.capture.harness.machine import nvml

_DISTRIBUTIONS = (
    "profkit",
    "torch",
    "numpy",
    "nvtx",
    "triton",
    "deepspeed",
    "accelerate",
    "transformers",
)


def versions(tool: Tool) -> dict[str, str]:
    """Return the versions of the profiler and of each important distribution."""
    installed = {tool.profiler_name(): tool.version()} if tool.version() else {}
    for name in _DISTRIBUTIONS:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def packages() -> dict[str, str]:
    """Return the version of every distribution that is installed; takes about 1 ms for each."""
    distributions = importlib.metadata.distributions()
    found = {distribution.name: distribution.version for distribution in distributions}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def machine() -> dict[str, Any]:
    """Return the hardware and drivers of this machine; sizes in bytes, "" for missing ones.

    The NVIDIA GPUs are those of `nvml.devices`.
    """
    with nvml.opened() as library:
        driver = nvml.system(library) if library else {}
        gpus = nvml.devices(library) if library else []
    return {
        "hostname": socket.gethostname(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cpu_count": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "shared_memory_bytes": shared_memory_bytes(),
        "gpus": gpus,
        "driver": "",
        "cuda_driver": "",
        **driver,
        **_torch_builds(),
        "nccl": _nccl(),
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


def _torch_builds() -> dict[str, str]:
    """Return the CUDA or HIP version of torch's build, without importing it, which takes 1 s."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {"cuda": ""}
    version = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    builds = {"cuda": version.get("cuda") or ""}
    return builds | ({"hip": version["hip"]} if version.get("hip") else {})


def _nccl() -> str:
    """Return the version of the NCCL that is installed for torch; "" if it is built in or absent.

    Only torch itself knows the one built in, and importing it takes seconds.
    """
    names = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
