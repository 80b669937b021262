"""The command ``profkit``, and ``python -m profkit``."""

import atexit
import os
import sys
from typing import NoReturn

from profkit.process import job_server

_status: int | None = None
"""Exit status of the command."""


def run() -> NoReturn:
    """Run one command and end this process with its status."""
    global _status  # noqa: PLW0603 - of the process
    atexit.register(_leave)  # before all others, so it is called after them
    _status = job_server.run_in_fork(sys.argv[1:])
    if _status is None:
        from profkit.cli import main  # noqa: PLC0415 - a command that is handed over needs none

        _status = main()
    sys.exit(_status)


def _leave() -> None:
    """End at once: to free all objects, one by one, is a tenth to a sixth of an analysis."""
    if _status is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # Python says so, and that is its status
    os._exit(_status)


if __name__ == "__main__":
    run()
