"""End a job when the workflow that started it has ended, although a shell lies between them."""

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PROFKIT_WORKFLOW"
"""Environment variable with the process of the workflow, which is Snakemake's; see `identity`."""

INVOCATION = "PROFKIT_INVOCATION"
"""Environment variable with the name of one invocation of the workflow, on all hosts."""

_PERIOD_S = 0.5
_ENDED_STATES = ("Z", "X")
_STATE, _START = 0, 19
"""Positions in ``/proc/PID/stat``, counted behind the name of the program."""


def identity() -> str:
    """Return this process as text: where its number means something, the number, when it began."""
    return f"{numbering()}/{os.getpid()}/{_began(os.getpid())}"


def has_workflow_ended(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether the workflow that started this job has ended.

    False if there is none, or if it runs on another host or in another PID namespace, whose
    numbers mean nothing here: `host_reports` watches those.
    """
    where, pid, began = environment.get(VARIABLE, "//").split("/")
    return where == numbering() and _began(int(pid)) != began


def end_with_workflow() -> None:
    """End this process and all that it starts soon after the workflow."""
    name = "profkit end with workflow"
    is_watched = any(thread.name == name for thread in threading.enumerate())
    if VARIABLE in os.environ and not is_watched:
        threading.Thread(target=_wait_for_workflow, name=name, daemon=True).start()


def _wait_for_workflow() -> None:
    time.sleep(_PERIOD_S)
    while not has_workflow_ended():
        time.sleep(_PERIOD_S)
    # Half of all jobs end before the first look, and are spared this import.
    from profkit.process import process_tree  # noqa: PLC0415

    process_tree.kill_all()
    os._exit(1)


def numbering() -> str:
    """Return what tells the process numbers seen here from those of elsewhere."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{booted}-{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _began(pid: int) -> str:
    """Return when process `pid` began, in units of the system; "" if it has ended."""
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - as above

        return str(psutil.Process(pid).create_time()) if psutil.pid_exists(pid) else ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # In containers without an init, a process that has ended may stay a zombie.
    return "" if fields[_STATE] in _ENDED_STATES else fields[_START]
