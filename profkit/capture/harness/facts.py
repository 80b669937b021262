"""Facts about the machine and the software, which measured numbers depend on."""

import importlib.metadata
import importlib.util
import os
import platform
import runpy
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil

_DISTRIBUTIONS = (
    "profkit",
    "torch",
    "numpy",
    "nvtx",
    "py-spy",
    "triton",
    "deepspeed",
    "accelerate",
    "transformers",
)
_SMI_TIMEOUT_S = 30


def versions() -> dict[str, str]:
    """Return the version of each distribution that matters and is installed."""
    installed = {}
    for name in _DISTRIBUTIONS:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def machine() -> dict[str, Any]:
    """Return what this machine is; sizes in bytes, empty text for what it does not have."""
    gpus = _gpus()
    return {
        "hostname": socket.gethostname(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cpu_count": _cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [{key: gpu[key] for key in ("name", "memory_bytes", "uuid")} for gpu in gpus],
        "driver": gpus[0]["driver"] if gpus else "",
        "cuda": _torch_cuda(),
    }


def _cpu_count() -> int:
    """Return the CPUs that this process may use, which in a container are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[dict[str, Any]]:
    """Ask nvidia-smi, which comes with the driver and needs no package."""
    binary = shutil.which("nvidia-smi")
    if binary is None:
        return []
    query = "--query-gpu=name,memory.total,uuid,driver_version"
    answer = subprocess.run(
        [binary, query, "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        timeout=_SMI_TIMEOUT_S,
        check=False,
    )
    return parsed_gpus(answer.stdout) if answer.returncode == 0 else []


def parsed_gpus(answer: str) -> list[dict[str, Any]]:
    """Return the GPUs in an answer of nvidia-smi; MIG devices do not say how much memory."""
    gpus = []
    for line in answer.splitlines():
        name, mebibytes, uuid, driver = (each.strip() for each in line.split(","))
        memory = int(mebibytes) << 20 if mebibytes.isdigit() else -1
        gpus.append({"name": name, "memory_bytes": memory, "uuid": uuid, "driver": driver})
    return gpus


def _torch_cuda() -> str:
    """Return the CUDA version torch was built for, without the second that importing it takes."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    return runpy.run_path(str(Path(spec.origin).with_name("version.py"))).get("cuda") or ""
