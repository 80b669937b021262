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
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from profkit.process import forked, job_client, job_fork
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
        serve(listening.detach(), later, run_job)
        sys.exit(run_job())

    forked.end_with(work)


def stop() -> None:
    """Wait for the jobs of the server that this process started, and for its end."""
    while _stops:
        _, end = _stops.popitem()
        end()


def serve(
    listening_fd: int,
    later: Iterable[Callable[[], object]] = (),
    run_shared: Callable[[], int] | None = None,
) -> None:
    """Fork for each job; return in the fork, which is then as the job's own process would be.

    Once one works, each of `later` loads what that needs not, while no other is to be begun. Jobs
    that may share a process are done by `run_shared`, which returns their status, one after the
    other in the same fork; see `job_fork.share`. The server ends when its jobs have ended and
    standard input does, which the workflow holds open.
    """
    gc.collect()
    gc.freeze()
    server = _Server(socket.socket(fileno=listening_fd), [*later], run_shared is not None)
    begun = server.next_job()
    if begun is None:
        os._exit(0)
    connection, channel = begun
    if channel and run_shared:
        job_fork.share(connection, channel, run_shared)
    job_fork.become(connection)


@dataclass(slots=True)
class _Fork:
    """A process that does a job, or waits for one more."""

    pid: int
    descriptor: int
    """Readable when it has ended."""

    connection: socket.socket | None
    """Of the job that it does; None while it waits."""

    channel: socket.socket | None
    """Through which it takes one more job; None if it takes no other."""

    unloaded: int
    """How many things this process had not loaded when it was made."""


@dataclass
class _Server:
    """Waits for jobs, and for the ends of those that were begun."""

    listening: socket.socket
    later: list[Callable[[], object]]
    """What remains to be called once a job works."""

    shares: bool
    """Whether a fork may do several jobs."""

    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    forks: list[_Fork] = field(default_factory=list)
    told_s: float = 0.0
    """CPU time of this process that was told as that of a job."""

    is_open: bool = True
    """Whether there may be more jobs."""

    def next_job(self) -> tuple[socket.socket, socket.socket | None] | None:
        """Return the connection of a job and the channel, in a fork; None here at the end."""
        self._wait_for(_WORKFLOW, self._closed)
        self._wait_for(self.listening, self._accepted)
        while self.is_open or self.forks:
            is_loading = bool(self.later) and any(fork.connection for fork in self.forks)
            ready = self.selector.select(0 if is_loading else None)
            if is_loading and not ready:
                self._load_next()
            for key, _ in ready:
                if begun := key.data():
                    return begun  # type: ignore[no-any-return]
        shutil.rmtree(Path(self.listening.getsockname()).parent)
        return None

    def _closed(self) -> None:
        """End as soon as no job works."""
        self.is_open = False
        self.selector.unregister(_WORKFLOW)
        self._dismiss_waiting()

    def _accepted(self) -> tuple[socket.socket, socket.socket | None] | None:
        """Begin the next job; return its connection and the channel in its fork."""
        connection, _ = self.listening.accept()
        is_shared = self.shares and job_fork.may_share(connection)
        if is_shared and self._handed_on(connection):
            return None
        here, there = socket.socketpair(type=socket.SOCK_SEQPACKET) if is_shared else (None, None)
        if pid := os.fork():
            fork = _Fork(pid, os.pidfd_open(pid), connection, here, len(self.later))
            self.forks.append(fork)
            self._wait_for(fork.descriptor, partial(self._ended, fork))
            if here and there:
                there.close()
                self._wait_for(here, partial(self._done, fork))
            return None
        # Held open here, a connection would not end with the job that it belongs to.
        for fork in self.forks:
            os.close(fork.descriptor)
            _close(fork.connection, fork.channel)
        _close(here, self.listening)
        self.selector.close()
        return connection, there

    def _wait_for(self, what: socket.socket | int, then: Callable[[], object]) -> None:
        self.selector.register(what, selectors.EVENT_READ, then)

    def _handed_on(self, connection: socket.socket) -> bool:
        """Say whether a fork that waits has taken the job of `connection`."""
        for fork in self.forks:
            if fork.connection is None and fork.channel:
                try:
                    socket.send_fds(fork.channel, [job_fork.ONE_MORE], [connection.fileno()])
                except OSError:
                    continue  # it has just ended
                fork.connection = connection
                return True
        return False

    def _load_next(self) -> None:
        with uncollected(keeps=True):
            self.later.pop(0)()
        self._dismiss_waiting()

    def _dismiss_waiting(self) -> None:
        for fork in self.forks:
            if fork.connection is None:
                self._dismiss(fork)

    def _dismiss(self, fork: _Fork) -> None:
        """Let `fork` end: it does no other job."""
        if fork.channel:
            self.selector.unregister(fork.channel)
            fork.channel.close()
            fork.channel = None

    def _done(self, fork: _Fork) -> None:
        """Tell the end of a job after which `fork` waits for one more, if that is of use."""
        if fork.channel is None:
            return  # its end was seen first
        try:
            cpu = fork.channel.recv(job_client.END_BYTES)
        except ConnectionError:
            cpu = b""
        if cpu:
            self._tell(fork, 0, float(cpu))
        if not cpu or not self.is_open or fork.unloaded != len(self.later):
            self._dismiss(fork)

    def _ended(self, fork: _Fork) -> None:
        self.selector.unregister(fork.descriptor)
        os.close(fork.descriptor)
        self._dismiss(fork)
        self.forks.remove(fork)
        _, status, used = os.wait4(fork.pid, 0)
        self._tell(fork, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)

    def _tell(self, fork: _Fork, status: int, cpu_s: float) -> None:
        """Say to who waits for the job of `fork`, if it has one, how that ended."""
        if fork.connection is None:
            return
        # With what this process has loaded for it.
        own_s, self.told_s = time.process_time() - self.told_s, time.process_time()
        with fork.connection as connection:
            fork.connection = None
            # The command may have been killed meanwhile.
            with suppress(OSError):
                connection.sendall(f"{status} {cpu_s + own_s:.2f}\n".encode())


def _close(*sockets: socket.socket | None) -> None:
    for one in sockets:
        if one:
            one.close()
