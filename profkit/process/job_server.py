"""Run the jobs of a workflow in forks of one process that has loaded what they need.

To load pandas and Arrow takes longer than most jobs work. A job stays a command line of its own,
with its own log and status: the command hands itself over to the server and waits. Where there
is none, as on a cluster, or when the server was killed, it does the work itself.
"""

import atexit
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from profkit.process.job_client import SOCKET, VARIABLE

_WAITING = 128

_servers: list["subprocess.Popen[bytes]"] = []


def start(module: str) -> None:
    """Start ``python -m module``, which calls `serve`, for the jobs of this process."""
    if not hasattr(os, "pidfd_open"):
        return
    folder = tempfile.mkdtemp(prefix="profkit-jobs-")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/{SOCKET}")
        listening.listen(_WAITING)
        server = subprocess.Popen(
            [sys.executable, "-m", module, str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        )
    os.environ[VARIABLE] = f"{folder}{os.pathsep}{sys.prefix}"
    atexit.register(stop)
    _servers.append(server)


def stop() -> None:
    """Wait for the jobs of the server that `start` started, and for its end."""
    while _servers:
        os.environ.pop(VARIABLE, None)
        _servers.pop().communicate()


def serve(listening_fd: int) -> None:
    """Fork for each job; return in the fork, which is then as the job's own process would be.

    The server ends when its jobs have ended and standard input does, which the workflow holds open.
    """
    gc.collect()
    gc.freeze()
    connection = _Server(socket.socket(fileno=listening_fd)).next_job()
    if connection is None:
        os._exit(0)
    _become(connection)


@dataclass
class _Server:
    """Waits for jobs, and for the ends of those that were begun."""

    listening: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    running: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    """Process id and connection of each job, by the descriptor that tells when it has ended."""

    def next_job(self) -> socket.socket | None:
        """Return the connection of a job in its fork, and None in the server at its end."""
        workflow = sys.stdin.fileno()
        for descriptor in (workflow, self.listening.fileno()):
            self.selector.register(descriptor, selectors.EVENT_READ)
        is_open = True
        while is_open or self.running:
            for key, _ in self.selector.select():
                if key.fd == self.listening.fileno():
                    if connection := self._forked():
                        return connection
                elif key.fd == workflow:
                    is_open = False
                    self.selector.unregister(workflow)
                else:
                    self._ended(key.fd)
        shutil.rmtree(Path(self.listening.getsockname()).parent)
        return None

    def _forked(self) -> socket.socket | None:
        """Return the connection of the next job in its fork, and None in the server."""
        connection, _ = self.listening.accept()
        if pid := os.fork():
            descriptor = os.pidfd_open(pid)
            self.running[descriptor] = (pid, connection)
            self.selector.register(descriptor, selectors.EVENT_READ)
            return None
        # Held open here, a connection would not end with the job that it belongs to.
        for descriptor, (_, other) in self.running.items():
            os.close(descriptor)
            other.close()
        self.selector.close()
        self.listening.close()
        return connection

    def _ended(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)
        pid, connection = self.running.pop(descriptor)
        _, status = os.waitpid(pid, 0)
        with connection:
            try:
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            except OSError:
                return  # the command was killed meanwhile


def _become(connection: socket.socket) -> None:
    """Take over all that belongs to the command at the other end of `connection`."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    job = json.loads(connection.makefile("rb").readline())
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv[1:] = job["argv"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_command, args=(connection,), daemon=True).start()


def _end_with_command(connection: socket.socket) -> None:
    """End this job, and all that it started, when its command was killed."""
    from profkit.process import process_tree  # noqa: PLC0415 - not in the command

    connection.recv(1)
    process_tree.kill_all()
    os._exit(1)
