"""Run the jobs of a workflow in forks of one process that has loaded what they need.

To load pandas and Arrow takes longer than most jobs work. A job stays a command line of its own,
with its own log and status: who would start it hands it over to the server instead and waits. Where
there is none, as on a cluster, or when the server was killed, it is started as any command.
"""

import atexit
import gc
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from profkit.process import forked, job_client
from profkit.process.malloc import uncollected

_WAITING = 128
_WORKFLOW = 0
"""Descriptor, standard input, that the workflow holds open at its other end."""

_SOCKET = "socket"
"""Name of the socket in the server's folder."""

_stops: dict[str, Callable[[], object]] = {}
"""What ends the server that this process started, and waits for that, by its `address`."""

_forks: set[int] = set()
"""Process ids of servers that are forks of this process."""


def address() -> str | None:
    """Return the path of the socket of the first server of this process; None without one."""
    return next(iter(_stops), None)


def use(path: str) -> None:
    """Take the server at `path`, which another process started and ends, for jobs of this one."""
    _stops[path] = lambda: None


def start(module: str, *words: str) -> str:
    """Start ``python -m module``, which calls `serve`, for the jobs of this process.

    Its arguments are the descriptor to `serve`, and `words`. Returns the path of its socket, "" on
    a system where there can be none.
    """
    if not hasattr(os, "pidfd_open"):
        return ""
    with _listening() as listening:
        server = subprocess.Popen(
            [sys.executable, "-m", module, str(listening.fileno()), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        )
        path: str = listening.getsockname()
        _stops[path] = server.communicate
    return path


def fork(
    load: Callable[[], None],
    run_job: Callable[[], int],
    later: Iterable[Callable[[], object]] = (),
) -> None:
    """Start the server as a fork of this process, with all that this one has loaded.

    It calls `load` at once, what is in `later` once a job works, and in the fork for each job
    `run_job`, which returns its status.
    """
    if not hasattr(os, "pidfd_open"):
        return
    own_end, open_end = os.pipe()
    with _listening() as listening:
        if not (pid := os.fork()):
            os.close(open_end)
            _serve_in_fork(listening, own_end, load, later, run_job)
        _forks.add(pid)
        _stops[listening.getsockname()] = partial(_end_fork, pid, open_end)
    os.close(own_end)


def _end_fork(pid: int, open_end: int) -> None:
    os.close(open_end)
    os.waitpid(pid, 0)
    _forks.discard(pid)


def signal_jobs(signum: int) -> None:
    """Send `signum` to the jobs of the servers that are forks of this process."""
    for pid in _forks:
        with suppress(ProcessLookupError):  # it has no session of its own yet, and no job
            os.killpg(pid, signum)


def _listening() -> socket.socket:
    """Return the socket of a new server."""
    folder = tempfile.mkdtemp(prefix="profkit-jobs-")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{folder}/{_SOCKET}")
    listening.listen(_WAITING)
    atexit.register(stop)
    return listening


def _serve_in_fork(
    listening: socket.socket,
    workflow: int,
    load: Callable[[], None],
    later: Iterable[Callable[[], object]],
    run_job: Callable[[], int],
) -> NoReturn:
    """Be the server, and in its forks the jobs."""

    def work() -> None:
        _stops.clear()
        # An interrupt is for the workflow and its jobs, and comes from the process that was forked.
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(workflow, _WORKFLOW)
        os.close(workflow)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        load()
        serve(listening.detach(), later)
        sys.exit(run_job())

    forked.end_with(work)


def stop() -> None:
    """Wait for the jobs of the server that this process started, and for its end."""
    while _stops:
        _, end = _stops.popitem()
        end()


def serve(listening_fd: int, later: Iterable[Callable[[], object]] = ()) -> None:
    """Fork for each job; return in the fork, which is then as the job's own process would be.

    Once one works, each of `later` loads what that needs not, while no other is to be begun. The
    server ends when its jobs have ended and standard input does, which the workflow holds open.
    """
    gc.collect()
    gc.freeze()
    connection = _Server(socket.socket(fileno=listening_fd), [*later]).next_job()
    if connection is None:
        os._exit(0)
    _become(connection)


@dataclass
class _Server:
    """Waits for jobs, and for the ends of those that were begun."""

    listening: socket.socket
    later: list[Callable[[], object]]
    """What remains to be called once a job works."""

    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    running: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    """Process id and connection of each job, by the descriptor that tells when it has ended."""

    told_s: float = 0.0
    """CPU time of this process that was told as that of a job."""

    def next_job(self) -> socket.socket | None:
        """Return the connection of a job in its fork, and None in the server at its end."""
        for descriptor in (_WORKFLOW, self.listening.fileno()):
            self.selector.register(descriptor, selectors.EVENT_READ)
        is_open = True
        while is_open or self.running:
            is_loading = bool(self.running and self.later)
            ready = self.selector.select(0 if is_loading else None)
            if is_loading and not ready:
                self._load_next()
            for key, _ in ready:
                if key.fd == self.listening.fileno():
                    if connection := self._forked():
                        return connection
                elif key.fd == _WORKFLOW:
                    is_open = False
                    self.selector.unregister(_WORKFLOW)
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

    def _load_next(self) -> None:
        with uncollected():
            self.later.pop(0)()
        gc.freeze()

    def _ended(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)
        pid, connection = self.running.pop(descriptor)
        _, status, used = os.wait4(pid, 0)
        # With what this process has loaded for it.
        own_s, self.told_s = time.process_time() - self.told_s, time.process_time()
        cpu_s = used.ru_utime + used.ru_stime + own_s
        with connection:
            try:
                connection.sendall(f"{os.waitstatus_to_exitcode(status)} {cpu_s:.2f}\n".encode())
            except OSError:
                return  # the command was killed meanwhile


def _become(connection: socket.socket) -> None:
    """Take over all that belongs to the command at the other end of `connection`."""
    length, streams, _, _ = socket.recv_fds(connection, job_client.LENGTH_BYTES, 3)
    sent = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    folder, argv, environment = job_client.parsed(sent)
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    forked.open_streams()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = argv
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not in the thread: the job may be importing, or forgetting, modules by then.
    from profkit.process import process_tree  # noqa: PLC0415 - not in the command

    watching = (connection, process_tree.kill_all)
    name = "profkit end with command"
    threading.Thread(target=_end_with_command, args=watching, name=name, daemon=True).start()


def _end_with_command(connection: socket.socket, kill_all: Callable[[], object]) -> None:
    """End this job, and all that it started, when its command was killed."""
    connection.recv(1)
    kill_all()
    # Not os._exit, which a rank takes for the end of its program.
    os.kill(os.getpid(), signal.SIGKILL)
