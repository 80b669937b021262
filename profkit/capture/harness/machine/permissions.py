"""Permissions of profilers on this machine: trace processes, count events, read GPU counters."""

from collections.abc import Iterator
from pathlib import Path

from profkit.capture.base import Problem

_PROC = Path("/proc")
# <linux/capability.h>
_CAP_SYS_PTRACE = 19
_CAP_SYS_ADMIN = 21


def tracing(proc: Path = _PROC) -> Iterator[Problem]:
    """Yield settings that forbid a process to trace its children with ptrace."""
    scope = ptrace_scope(proc)
    if scope == 3:  # noqa: PLR2004 - a level of the kernel's
        what = "kernel.yama.ptrace_scope is 3, which forbids ptrace"
        yield Problem(kind="forbidden", what=what, advice="lower it and boot again")
    if scope == 2 and not _may(_CAP_SYS_PTRACE, proc):  # noqa: PLR2004 - a level of the kernel's
        what = "kernel.yama.ptrace_scope is 2, which allows ptrace to administrators only"
        yield Problem(
            kind="forbidden",
            what=what,
            advice="sudo sysctl kernel.yama.ptrace_scope=1, or docker run --cap-add=SYS_PTRACE",
        )


def gpu_counters(needed_by: str = "", proc: Path = _PROC) -> Iterator[Problem]:
    """Yield settings that forbid reading the performance counters of NVIDIA GPUs.

    `needed_by` names the setting that needs them, for a tool that also works without.
    """
    if are_counters_restricted(proc) and not _may(_CAP_SYS_ADMIN, proc):
        named = f", which {needed_by} needs," if needed_by else ""
        yield Problem(
            kind="forbidden",
            what=f"performance counters of GPUs{named} are for administrators only",
            advice="load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root"
            " (docker run --cap-add=SYS_ADMIN)",
            stops=not needed_by,
            setting=needed_by,
        )


def ptrace_scope(proc: Path = _PROC) -> int:
    """Return Yama's level from 0 (no limit) to 3 (never); -1 where the kernel has no Yama."""
    return _number(proc / "sys/kernel/yama/ptrace_scope", unknown=-1)


def perf_event_paranoid(proc: Path = _PROC) -> int | None:
    """Return the kernel's limit on counting CPU events, from -1 (no limit) up; None without it.

    Sampling the CPU's instruction pointer and context switches needs at most 2.
    """
    path = proc / "sys/kernel/perf_event_paranoid"
    return _number(path, unknown=0) if path.is_file() else None


def are_counters_restricted(proc: Path = _PROC) -> bool:
    """Say whether NVIDIA's driver keeps performance counters for administrators."""
    params = proc / "driver/nvidia/params"
    return params.is_file() and "RmProfilingAdminOnly: 1" in params.read_text()


def _may(capability: int, proc: Path) -> bool:
    """Say whether this process has a capability of Linux; root in a container has few."""
    status = proc / "self/status"
    lines = status.read_text().splitlines() if status.is_file() else []
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> capability & 1)


def _number(path: Path, unknown: int) -> int:
    return int(path.read_text()) if path.is_file() else unknown
