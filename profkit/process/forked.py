"""Run a function in a fork of this process, which is then as a program of its own would be.

The fork has all that this process has loaded. It must be made while this process has no thread that
could hold a lock the function needs.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, NoReturn

_PERIOD_S = 0.02
_READY = b"\n"


@dataclass
class Forked:
    """A fork of this process, in a session of its own."""

    pid: int

    output: IO[str]
    """What it prints."""

    status: int | None = None
    """Exit status, or minus the signal that ended it; None while it works."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, at most so long, and return `status`."""
        end_s = time.monotonic() + timeout_s
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() < end_s:
                time.sleep(_PERIOD_S)
            else:
                break
        return self.status


def start(work: Callable[[], object], variables: Mapping[str, str]) -> Forked:
    """Run `work` in a fork with `variables` added to its environment.

    Its standard input is empty. Interrupts of the terminal do not reach it.
    """
    return in_session(work, partial(_become, variables))


def in_session(
    work: Callable[[], object],
    become: Callable[[int], object] = int,
    *,
    keeps_exit_functions: bool = False,
) -> Forked:
    """Run `work` in a fork that is a session of its own and was given its output by `become`.

    Without, it prints where this process does.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        begin = partial(_begin, work, become, writing)
        end_with(begin, keeps_exit_functions=keeps_exit_functions)
    os.close(writing)
    # It can be sent signals by then.
    os.read(reading, len(_READY))
    return Forked(pid, os.fdopen(reading, errors="replace"))


def _begin(work: Callable[[], object], become: Callable[[int], object], writing: int) -> None:
    os.setsid()
    become(writing)
    os.write(writing, _READY)
    os.close(writing)
    work()


def _become(variables: Mapping[str, str], writing: int) -> None:
    for descriptor, stream in ((os.open(os.devnull, os.O_RDONLY), 0), (writing, 1), (writing, 2)):
        os.dup2(descriptor, stream)
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(variables)
    open_streams()


def open_streams() -> None:
    """Open input and output anew in a fork whose descriptors 0 to 2 were replaced.

    Those of the process that was forked may be a terminal's or a test's, and know of a place in a
    file, which the new ones have not.
    """
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def end_with(work: Callable[[], object], *, keeps_exit_functions: bool = False) -> NoReturn:
    """Do `work` in this fork and end it: nothing of the process that was forked goes on.

    What libraries have registered there to be called at the end is called only if it
    `keeps_exit_functions`.
    """
    if not keeps_exit_functions:
        atexit._clear()  # noqa: SLF001
    # What is there already is not gone through again and again, so that it stays shared.
    gc.freeze()
    end(status_of(work))


def status_of(work: Callable[[], object]) -> int:
    """Do `work`; return, and say, what Python would at the end of a process that does it."""
    try:
        work()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            sys.stderr.write(f"{stop.code}\n")
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001 - as of any process, before its end
        traceback.print_exc()
        return 1
    return 0


def end(status: int) -> NoReturn:
    """End this fork as Python ends a process, but for the freeing of all objects."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
