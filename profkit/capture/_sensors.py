"""Sensors and counters of this process, its GPU and its host.

Each reading is a dictionary by names that end in their unit. Values that a system does not have
are left out: a missing key is not known.
"""

import sys
from typing import Any

import psutil

from profkit.capture.harness.machine import nvml

Readings = dict[str, float]
"""Values by name; the name ends in the unit."""


class Sensors:
    """Everything that one rank can read, by device: process, host and gpu<index>."""

    def __init__(self, library: Any, *, with_host: bool) -> None:
        self.nvml = library
        self.with_host = with_host
        self.process = psutil.Process()
        self.gpu: tuple[str, Any] | None = None

    def find_gpu(self) -> str:
        """Find the GPU that this thread computes on; return why it cannot be read, or ""."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return ""
        if self.nvml is None:
            return "NVML does not answer: the GPU was not sampled."
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        handle = nvml.handle_of(self.nvml, uuid)
        if handle is None:
            return f"NVML does not know the GPU {uuid}: it was not sampled."
        self.gpu = f"gpu{self.nvml.nvmlDeviceGetIndex(handle)}", handle
        return ""

    def read(self) -> dict[str, Readings]:
        """Return the readings of all of them now."""
        found = {"process": of_process(self.process)}
        if self.with_host:
            found["host"] = of_host()
        if self.gpu is not None:
            name, handle = self.gpu
            found[name] = nvml.readings(self.nvml, handle)
        return found


def of_process(process: psutil.Process) -> Readings:
    """Return CPU time, memory, threads, and disk traffic of a process."""
    with process.oneshot():
        times = process.cpu_times()
        found: Readings = {
            "cpu_s": times.user + times.system,
            "memory_used_bytes": process.memory_info().rss,
            "threads_count": process.num_threads(),
        }
        if hasattr(process, "io_counters"):
            moved = process.io_counters()
            found |= {"disk_read_bytes": moved.read_bytes, "disk_write_bytes": moved.write_bytes}
    return found


def of_host() -> Readings:
    """Return CPU time of all CPUs together, memory, and traffic of all disks and networks."""
    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    # A guest's time is counted in user and nice as well.
    spent = {key: value for key, value in times._asdict().items() if not key.startswith("guest")}
    waited = sum(spent.pop(name, 0.0) for name in ("idle", "iowait", "steal"))
    found: Readings = {
        "cpu_s": sum(spent.values()),
        "cpu_all_s": sum(spent.values()) + waited,
        "cpu_count": psutil.cpu_count() or 0,
        "memory_used_bytes": memory.total - memory.available,
        "swap_used_bytes": psutil.swap_memory().used,
    }
    # Containers may have neither disks nor networks.
    if disks := psutil.disk_io_counters():
        found |= {"disk_read_bytes": disks.read_bytes, "disk_write_bytes": disks.write_bytes}
    if network := psutil.net_io_counters():
        found |= {
            "network_sent_bytes": network.bytes_sent,
            "network_received_bytes": network.bytes_recv,
        }
    return found
