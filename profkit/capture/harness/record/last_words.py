"""The last line that each rank printed, also of a rank that was killed.

All ranks print into one log, and so does their launcher. Each rank opens that log anew, so that it
has a position of its own there, and hands its descriptors to the process that waits for it: that
can read the position when the rank is gone.
"""

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from profkit.capture.base import Rank
from profkit.capture.harness.record import bounded_log

_SUFFIX = ".last_words.txt"
_OUTPUTS = (1, 2)
_MOST_RANKS = 1024
# Process, user and group.
_CREDENTIALS = struct.Struct("3i")
_MOST_BYTES = 4096

OF_PROFILER = re.compile(
    rb"^(?:USDT:.*\] profiler_(?:start|stop)"
    rb"|ERROR: External init callback must run in same thread as registerClient.*"
    rb"|\[W.*\] Memory block of unknown size was allocated before the profiling started.*)\r?\n",
    re.MULTILINE,
)
"""What PyTorch prints as profkit starts its profiler, whatever the program does: the log has it."""


def hand_over(out: Path, token: str, rank: Rank) -> None:
    """Let the capture with `token`, whose log is in `out`, see where this process prints last."""
    # In a container there is no way to that process, and another launcher may print elsewhere.
    with contextlib.suppress(OSError):
        opened = []
        for output in _OUTPUTS:
            path = Path(f"/proc/self/fd/{output}")
            if path.readlink().parent == out.resolve():
                opened.append(os.open(path, os.O_WRONLY | os.O_APPEND))
                os.dup2(opened[-1], output)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            connection.connect(_address(token))
            socket.send_fds(connection, [rank.label.encode()], opened)
        for descriptor in opened:
            os.close(descriptor)


class Listener:
    """Keeps what the ranks of the capture with `token` hand over, until it is asked for."""

    def __init__(self, token: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.bind(_address(token))
        self.socket.listen(_MOST_RANKS)

    def close(self) -> None:
        """Listen no longer."""
        self.socket.close()

    def write(self, log: Path) -> None:
        """Write the last line of each rank into a file beside `log`, after the ranks have ended."""
        # In a log that was shortened, the positions of before mean nothing.
        is_whole = log.is_file() and log.stat().st_size < bounded_log.TAIL_BYTES
        for label, position in self._positions():
            if is_whole and (line := _line_before(log, position)):
                (log.parent / f"{label}{_SUFFIX}").write_text(line, encoding="utf-8")

    def _positions(self) -> Iterator[tuple[str, int]]:
        """Yield the label of each rank, and the byte of the log behind what it printed last."""
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    connection.setblocking(False)
                    if not _is_of_this_user(connection):
                        continue
                    label, opened, _, _ = socket.recv_fds(connection, _MOST_BYTES, len(_OUTPUTS))
                positions = [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in opened]
                for descriptor in opened:
                    os.close(descriptor)
                yield label.decode(), max(positions, default=0)


def _is_of_this_user(connection: socket.socket) -> bool:
    """Say whether the user of this process is at the other end, as names of sockets are public."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.getuid())


def collect(out: Path) -> dict[str, str]:
    """Return the last lines by the labels of the ranks, and remove their files."""
    found = {}
    for path in sorted(out.glob(f"*{_SUFFIX}")):
        found[path.name.removesuffix(_SUFFIX)] = path.read_text(encoding="utf-8")
        path.unlink()
    return found


def _line_before(log: Path, position: int) -> str:
    with log.open("rb") as file:
        file.seek(max(position - _MOST_BYTES, 0))
        ended = file.read(min(position, _MOST_BYTES)) + b"\n"
    lines = OF_PROFILER.sub(b"", ended).decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _address(token: str) -> str:
    """Return an address in Linux's abstract namespace, which leaves no file."""
    return f"\0profkit-{token}"
