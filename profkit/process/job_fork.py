"""A fork of a job server as the process of a job, or of several, one after the other.

To fork a process that has loaded much, and to copy the pages that a job changes, takes as long as a
short job works. So those that may share a process do, as long as each leaves it as it was.
"""

import os
import resource
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from profkit.process import forked, job_client

ONE_MORE = b"j"
"""What a server sends with the connection of a job to a fork that waits."""

_HEADER_BYTES = len(job_client.SHARED) + job_client.LENGTH_BYTES
_LARGEST_GROWTH_BYTES = 64 << 20
"""By how much a process may be larger than its first job found it, and do one more."""


def may_share(connection: socket.socket) -> bool:
    """Say whether the job of `connection` may be done in a process that has done others."""
    return connection.recv(len(job_client.SHARED), socket.MSG_PEEK) == job_client.SHARED


def become(connection: socket.socket) -> Callable[[], None]:
    """Take over all that belongs to the command at the other end of `connection`.

    Returns what lets it go again once the job has ended.
    """
    header, streams, _, _ = socket.recv_fds(connection, _HEADER_BYTES, 3)
    length = int.from_bytes(header[len(job_client.SHARED) :], "big")
    sent = connection.recv(length, socket.MSG_WAITALL)
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

    has_ended = threading.Event()
    watching = (connection, has_ended, process_tree.kill_all)
    name = "profkit end with command"
    thread = threading.Thread(target=_end_with_command, args=watching, name=name, daemon=True)
    thread.start()
    return partial(_let_go, connection, has_ended, thread)


def _end_with_command(
    connection: socket.socket, has_ended: threading.Event, kill_all: Callable[[], object]
) -> None:
    """End this job, and all that it started, when its command was killed."""
    connection.recv(1)
    if has_ended.is_set():
        return
    kill_all()
    # Not os._exit, which a rank takes for the end of its program.
    os.kill(os.getpid(), signal.SIGKILL)


def _let_go(
    connection: socket.socket, has_ended: threading.Event, thread: threading.Thread
) -> None:
    has_ended.set()
    # The other end has done this already if its process was killed.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
    thread.join()
    connection.close()


def share(
    connection: socket.socket, channel: socket.socket, run_job: Callable[[], int]
) -> NoReturn:
    """Do the job of `connection` by `run_job`, then each that the server sends through `channel`.

    This process ends with the status of the first job that fails or leaves it other than it was:
    larger, or with threads or processes of its own.
    """
    before_bytes = _resident_bytes()
    while True:
        begun_s = _cpu_s()
        let_go = become(connection)
        _forget_peak()
        with warnings.catch_warnings():  # as said in no job before
            status = forked.status_of(lambda: sys.exit(run_job()))
        if status or not _is_as_before(before_bytes):
            forked.end(status)
        # That of the terminal is for jobs and the workflow.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _close_streams()
        let_go()
        channel.send(f"{_cpu_s() - begun_s:.2f}".encode())
        _, descriptors, _, _ = socket.recv_fds(channel, len(ONE_MORE), 1)
        if not descriptors:
            forked.end(0)
        connection = socket.socket(fileno=descriptors[0])


def _close_streams() -> None:
    """Let go of the streams of a job: who reads them waits for their end."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of all that it started."""
    return sum(os.times()[:4])


def _is_as_before(before_bytes: int) -> bool:
    """Say whether this process has no thread or process that a job began, and has not grown."""
    own_threads = [thread for thread in threading.enumerate() if not thread.daemon]
    # The largest of those that have ended would be recorded as the size of later jobs.
    has_waited = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    has_grown = _resident_bytes() - before_bytes > _LARGEST_GROWTH_BYTES
    return len(own_threads) == 1 and not has_waited and not _has_children() and not has_grown


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _forget_peak() -> None:
    """Let the largest memory that the system knows of this process be that of now."""
    with suppress(OSError):  # some containers forbid it: then the peak is that of several jobs
        Path("/proc/self/clear_refs").write_text("5")
