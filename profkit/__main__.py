"""The command ``profkit``, and ``python -m profkit``."""

import atexit
import os
import sys
from typing import NoReturn

from profkit.cli import main

_status: int | None = None
"""What `main` returned."""


def run() -> NoReturn:
    """Run one command and end this process with its status."""
    global _status  # noqa: PLW0603 - of the process
    atexit.register(_leave)  # before all others, so it is called after them
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
