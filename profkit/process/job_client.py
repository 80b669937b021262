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


LENGTH_BYTES = 4
"""Of the number, first, that says how long the message is."""

_C_INT = 4
_STATUS_BYTES = 16


def message(argv: "Sequence[str]") -> bytes:
    """Return the folder, the arguments and the environment of this process, as `parsed` reads them.

    None of them can hold a NUL.
    """
    words = [os.fsencode(word) for word in (os.getcwd(), str(len(argv)), *argv)]  # noqa: PTH109
    return b"\0".join([*words, *(name + b"=" + value for name, value in os.environb.items())])


def parsed(sent: bytes) -> "tuple[str, list[str], dict[str, str]]":
    """Return what `message` was made of."""
    folder, count, *words = (os.fsdecode(word) for word in sent.split(b"\0"))
    pairs = (word.partition("=") for word in words[int(count) :])
    return folder, words[: int(count)], {name: value for name, _, value in pairs}


def run_in_fork(argv: "Sequence[str]") -> int | None:
    """Return the exit status of the job `argv` in a fork of the server; None if there is none.

    Whatever this process starts knows nothing of the server.
    """
    folder, _, prefix = os.environ.pop(VARIABLE, "").partition(os.pathsep)
    if not folder or prefix != sys.prefix or not argv or argv[0] not in JOBS:
        return None
    status = handed_over(f"{folder}/{SOCKET}", argv)
    # A signal's number is added to 128, as in shells.
    return 128 - status if status is not None and status < 0 else status


def handed_over(path: str, argv: "Sequence[str]") -> int | None:
    """Return how `argv` ended in a fork of the server at `path`: minus a signal, or a status.

    None if there is no server, or it was killed.
    """
    # `socket` and `json` take as long to load as all else that this process does.
    import _socket  # noqa: PLC0415 - a command that hands nothing over needs none

    job = message(argv)
    streams = b"".join(stream.to_bytes(_C_INT, sys.byteorder) for stream in (0, 1, 2))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        passed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
        connection.sendmsg([len(job).to_bytes(LENGTH_BYTES, "big")], passed)
        connection.sendall(job)
        status = connection.recv(_STATUS_BYTES)
    except OSError:
        return None
    finally:
        connection.close()
    return int(status) if status else None
