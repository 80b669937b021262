"""Start a launcher of ranks in a fork of a process that has loaded it.

torchrun loads PyTorch before it starts a rank, which takes longer than many captures. The ranks are
as without this: processes of their own with the same words and environment; see `forked_ranks`.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profkit.process import caller_environment, job_client, job_server
from profkit.workloads import workload_settings

if TYPE_CHECKING:
    import _socket

_MODULES = {"torchrun": "torch.distributed.run"}
"""By launcher, modules that do the same in a fork of a process that has imported them."""

_SERVER = "profkit.capture.harness.launcher_server"

_KILLED = -signal.SIGKILL


@dataclass(slots=True)
class LaunchedInFork:
    """A launcher at work, with what `launch` needs of a `subprocess.Popen`."""

    command: Sequence[str]
    connection: "_socket.socket"
    cpu_s: float = 0.0
    """CPU time of it and of all that it started, once it has ended."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Return its exit status; negative is a signal. Raises `subprocess.TimeoutExpired`."""
        self.connection.settimeout(timeout_s)
        try:
            end = self.connection.recv(job_client.END_BYTES)
        except TimeoutError:
            raise subprocess.TimeoutExpired(list(self.command), timeout_s or 0) from None
        if not end:
            return _KILLED
        status, cpu_s = end.split()
        self.cpu_s = float(cpu_s)
        return int(status)

    def kill(self) -> None:
        """Kill it, and all that it started."""
        self.connection.shutdown(socket.SHUT_WR)


def serve(behaviours: Iterable[Mapping[str, Any]]) -> None:
    """Start the process that loads what runs of these `behaviours`, to be captured, start with.

    Captures that this process starts find it by their environment.
    """
    loadable = [behaviour for behaviour in behaviours if _is_loadable(behaviour["launcher"])]
    if loadable:
        launchers = sorted({_MODULES[behaviour["launcher"]["name"]] for behaviour in loadable})
        words = map(" ".join, (launchers, *_loaded_for_ranks(loadable)))
        os.environ[caller_environment.LOADED_LAUNCHER] = job_server.start(_SERVER, *words)


def _is_loadable(launcher: Mapping[str, Any]) -> bool:
    elsewhere = launcher["python"] or launcher.get("hosts") or launcher.get("across")
    is_here = not elsewhere and launcher["container"]["engine"] == "none"
    return is_here and launcher["name"] in _MODULES


def _loaded_for_ranks(
    behaviours: Iterable[Mapping[str, Any]],
) -> tuple[Collection[str], Sequence[str]]:
    """Return the workloads whose ranks may be forks, and modules that all of these load."""
    loaded: dict[str, Sequence[str]] = {}
    for behaviour in behaviours:
        modules = workload_settings(behaviour).rank_modules
        if modules is not None:
            loaded[behaviour["workload"]["name"]] = modules
    others = [*loaded.values()][1:]
    first = next(iter(loaded.values()), ())
    return loaded, [module for module in first if all(module in modules for modules in others)]


def start(
    command: Sequence[str], environment: Mapping[str, str], cwd: str, streams: Sequence[int]
) -> LaunchedInFork | None:
    """Start `command` in folder `cwd` (here, if ""); None if there is no process to fork.

    Its standard input, output and errors are the descriptors `streams`.
    """
    path = os.environ.get(caller_environment.LOADED_LAUNCHER)
    is_own = [*command[:2]] == [sys.executable, "-m"] and command[2] in _MODULES.values()
    if not path or not is_own:
        return None
    variables = {**environment, **caller_environment.ignored_signals()}
    job = job_client.message([cwd, *command], variables)
    connection = job_client.begun(path, job, streams)
    return LaunchedInFork(command, connection) if connection else None
