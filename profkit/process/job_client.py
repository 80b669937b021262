"""Hand a job over to the server of its workflow; see `profkit.process.job_server`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping, Sequence

LENGTH_BYTES = 4
"""Of the number, first, that says how long the message is."""

SHARED = b"s"
"""Before that number: the job may be done in a process that has done others."""

ALONE = b"a"
"""Before that number: it must be the only one of its process."""

_C_INT = 4
END_BYTES = 32
"""More than the line has that says how a job ended, and the seconds of CPU that it took."""


def message(argv: "Sequence[str]", environment: "Mapping[str, str]") -> bytes:
    """Return the folder of this process, `argv` and `environment`, as `parsed` reads them.

    None of them can hold a NUL.
    """
    variables = (f"{name}={value}" for name, value in environment.items())
    words = (os.getcwd(), str(len(argv)), *argv, *variables)  # noqa: PTH109
    return os.fsencode("\0".join(words))


def parsed(sent: bytes) -> "tuple[str, list[str], dict[str, str]]":
    """Return what `message` was made of."""
    folder, count, *words = (os.fsdecode(word) for word in sent.split(b"\0"))
    pairs = (word.partition("=") for word in words[int(count) :])
    return folder, words[: int(count)], {name: value for name, _, value in pairs}


def handed_over(
    path: str,
    argv: "Sequence[str]",
    streams: "Sequence[int]" = (0, 1, 2),
    environment: "Mapping[str, str]" = os.environ,
    kind: bytes = ALONE,
) -> int | None:
    """Return how `argv` ended in a fork of the server at `path`: minus a signal, or a status.

    Its standard input, output and errors are the descriptors `streams`; `kind` is `ALONE` or
    `SHARED`. None if there is no server, or it was killed.
    """
    connection = begun(path, message(argv, environment), streams, kind)
    if connection is None:
        return None
    try:
        end = connection.recv(END_BYTES)
    except OSError:
        return None
    finally:
        connection.close()
    return int(end.split()[0]) if end else None


def begun(
    path: str, job: bytes, streams: "Sequence[int]", kind: bytes = ALONE
) -> "_socket.socket | None":
    """Return the connection to the `job`, a `message`, that the server at `path` begins now.

    It receives how the job ends; when it is closed, or nothing more is sent, the job is killed.
    None if there is no server.
    """
    # `socket` takes longer to load than all else here.
    import _socket  # noqa: PLC0415 - a process that hands nothing over needs none

    descriptors = b"".join(stream.to_bytes(_C_INT, sys.byteorder) for stream in streams)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        passed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
        connection.sendmsg([kind, len(job).to_bytes(LENGTH_BYTES, "big")], passed)
        connection.sendall(job)
    except OSError:
        connection.close()
        return None
    return connection
