"""The command ``profkit``, and ``python -m profkit``."""

import atexit
import os
import select
import signal
import sys
from typing import NoReturn

from profkit import cli

_status: int | None = None
"""Exit status of the command."""

_UNREAD = 128 + signal.SIGPIPE
"""Exit status, as in shells, of a command whose reader has gone, such as ``head``."""


def run() -> NoReturn:
    """Run one command and end this process with its status."""
    global _status  # noqa: PLW0603 - of the process
    atexit.register(_leave)  # before all others, so it is called after them
    _open_closed_streams()
    try:
        _status = cli.main()
    except BrokenPipeError:
        if not _has_lost_reader():
            raise
        _status = _UNREAD
    sys.exit(_status)


def _open_closed_streams() -> None:
    """Leave no stream closed, as files that are opened next would get its number."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - to the end of this process
    if is_silent := sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if is_silent:
        sys.stderr.write("profkit: the standard output is closed\n  hint: >/dev/null hides it\n")
        sys.exit(1)


def _has_lost_reader() -> bool:
    """Say whether what this process prints has no reader any more."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _leave() -> None:
    """End at once: to free all objects, one by one, is a tenth to a sixth of an analysis."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        os._exit(_UNREAD)
    except OSError:
        return  # Python says so, and that is its status
    if _status is not None:
        os._exit(_status)


if __name__ == "__main__":
    run()
