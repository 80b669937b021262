"""Hand a job over to the server of its workflow; see `profkit.process.job_server`.

Each job begins with this, so that it imports as little as it can.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS = ("manifest", "convert", "analyze", "timeline", "report")
"""Commands that are handed over; a capture is not, which must be as alone as it can be."""

VARIABLE = "PROFKIT_JOB_SERVER"
"""Environment variable with the folder of the server's socket, and the Python that it runs."""

SOCKET = "socket"
"""Name of the socket in that folder."""


def run_in_fork(argv: "Sequence[str]") -> int | None:
    """Return the exit status of the job `argv` in a fork of the server; None if there is none.

    Whatever this process starts knows nothing of the server.
    """
    folder, _, prefix = os.environ.pop(VARIABLE, "").partition(os.pathsep)
    if not folder or prefix != sys.prefix or not argv or argv[0] not in JOBS:
        return None
    import json  # noqa: PLC0415 - see above
    import socket  # noqa: PLC0415 - see above

    job = {"argv": list(argv), "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{folder}/{SOCKET}")
            socket.send_fds(connection, [b"\n"], [0, 1, 2])
            connection.sendall(json.dumps(job).encode() + b"\n")
            status = connection.makefile("rb").readline()
    except OSError:
        return None
    if not status:
        return None
    # A signal's number is added to 128, as in shells.
    return int(status) if int(status) >= 0 else 128 - int(status)
