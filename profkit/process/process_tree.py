"""End all processes that a capture started, with the capture."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

import psutil

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 20
_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Have the kernel send this process `signum` when its parent ends (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, to find them later (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """Return the direct children of this process."""
    return {child.pid for child in psutil.Process().children()}


def kill_all(token: str = "", spared: Iterable[int] = ()) -> list[int]:
    """Kill all processes of a capture, and return those that could not be killed.

    These are the descendants of this process without the `spared` children and, if it is given,
    every process with `token` in its environment: a daemon that broke away on a system without
    subreapers.
    """
    for _ in range(_ROUNDS):
        processes = _descendants(set(spared)) | (_with_token(token) if token else set())
        if not processes:
            return []
        for process in processes:
            _kill(process)
        psutil.wait_procs(processes, timeout=1)
    return sorted(process.pid for process in processes)


def kill_marked(token: str) -> None:
    """Kill every process with `token` in its environment, daemons in sessions of their own too."""
    for _ in range(_ROUNDS):
        if not (processes := _with_token(token)):
            return
        for process in processes:
            _kill(process)
        psutil.wait_procs(processes, timeout=1)


def works(pid: int) -> bool:
    """Say whether a process, or one below it, runs or waits for a disk at this moment."""
    try:
        processes = [process := psutil.Process(pid), *_below(process)]
    except psutil.NoSuchProcess:
        return False
    return any(map(_is_at_work, processes))


def _is_at_work(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    except psutil.NoSuchProcess:
        return False


def _descendants(spared: set[int]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for child in psutil.Process().children():
        if child.pid not in spared:
            found |= {child, *_below(child)}
    return found


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _with_token(token: str) -> set[psutil.Process]:
    return {
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and token in _environment(process)
    }


def _environment(process: psutil.Process) -> str:
    """Return the environment of a process as text; "" if it is another user's or has ended."""
    try:
        return str(process.environ())
    except (psutil.Error, OSError):
        return ""


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
