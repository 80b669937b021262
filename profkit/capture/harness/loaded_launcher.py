"""Start a launcher of ranks in a fork of a process that has loaded it.

torchrun loads PyTorch before it starts a rank, which takes longer than many captures. The ranks are
as without this: processes of their own that it starts with the same words and environment.
"""

import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from profkit.process import caller_environment, forked, job_client, job_server, process_tree

if TYPE_CHECKING:
    import _socket

_MODULES = {"torchrun": "torch.distributed.run"}
"""By launcher, modules that do the same in a fork of a process that has imported them."""

_KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class LaunchedInFork:
    """A launcher at work, with what `launch` needs of a `subprocess.Popen`."""

    command: Sequence[str]
    connection: "_socket.socket"

    def wait(self, timeout_s: float | None = None) -> int:
        """Return its exit status; negative is a signal. Raises `subprocess.TimeoutExpired`."""
        self.connection.settimeout(timeout_s)
        try:
            status = self.connection.recv(job_client.STATUS_BYTES)
        except TimeoutError:
            raise subprocess.TimeoutExpired(list(self.command), timeout_s or 0) from None
        return int(status) if status else _KILLED

    def kill(self) -> None:
        """Kill it, and all that it started."""
        self.connection.shutdown(socket.SHUT_WR)


def serve(launchers: Iterable[Mapping[str, Any]]) -> None:
    """Start the process that loads the modules of `launchers`, settings of captures to be made.

    Captures that this process starts find it by their environment.
    """
    names = {
        launcher["name"]
        for launcher in launchers
        if not (launcher["python"] or launcher.get("hosts") or launcher.get("across"))
        and launcher["container"]["engine"] == "none"
    }
    if modules := [_MODULES[name] for name in sorted(names & _MODULES.keys())]:
        os.environ[caller_environment.LOADED_LAUNCHER] = job_server.start(__name__, *modules)


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


def main() -> None:
    """Load the modules that the arguments name, and serve; in a fork, be the guard of a launcher.

    The guard ends all that its launcher has started, once that has ended, or itself is to end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, listening_fd, *modules = sys.argv
    for module in modules:
        importlib.import_module(module)
    own_path = sys.path[1:]
    job_server.serve(int(listening_fd))
    process_tree.adopt_orphans()
    pid = os.fork()
    if not pid:
        forked.end_with(lambda: _launch(own_path))
    _, status = os.waitpid(pid, 0)
    process_tree.kill_all()
    _end_as(os.waitstatus_to_exitcode(status))


def _end_as(exit_code: int) -> NoReturn:
    """End as a process that ended with `exit_code`, which is negative for a signal."""
    if exit_code < 0:
        if exit_code != _KILLED:
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    os._exit(exit_code)


def _launch(own_path: Sequence[str]) -> None:
    """Be ``python -m module`` with the arguments of this job."""
    os.setsid()
    process_tree.die_with_parent()
    # That of the guard, which holds on to what it belongs to.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    caller_environment.ignore_as_caller()
    environment = caller_environment.restored()
    os.environ.clear()
    os.environ.update(environment)
    _, cwd, sys.executable, _, module, *words = sys.argv
    os.chdir(cwd or ".")
    folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [os.getcwd(), *folders, *own_path]  # noqa: PTH109 - as Python has it
    sys.argv[:] = [module, *words]
    del sys.modules[module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
