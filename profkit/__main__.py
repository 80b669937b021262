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
    try:
        _status = cli.main()
    except BrokenPipeError:
        if not _has_lost_reader():
            raise
        _status = _UNREAD
    sys.exit(_status)


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
