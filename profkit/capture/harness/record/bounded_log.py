"""A log that keeps its beginning and its end, however much a program prints.

A gigabyte of output would fill the disk, and take minutes to be searched for secrets.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

HEAD_BYTES = 1 << 20
"""What is kept of the beginning."""

TAIL_BYTES = 3 << 20
"""What is kept of the end."""

_SLACK_BYTES = 8 << 20
_NEAR_BYTES = 64 << 10
_BLOCK_BYTES = 64 << 10


class BoundedLog:
    """The file that processes print into, shortened while they do by calls of `shorten`.

    What they print between the look at the file's end and its shortening is lost, and counted.
    All of it is copied to the file or terminal `copied_to`, unless that is "".
    """

    def __init__(self, path: Path, copied_to: str = "") -> None:
        # Appending: a process that prints goes on where the file ends, and not where it was.
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        self.left_out = 0
        self.head = 0
        self.note = b""
        self.copied = 0
        # One that is gone, such as a closed terminal, is no reason to capture nothing.
        self.copy = -1
        with contextlib.suppress(OSError):
            self.copy = os.open(copied_to, os.O_WRONLY | os.O_NOCTTY | os.O_APPEND)

    def show(self) -> None:
        """Copy what is new, if it is to be copied."""
        while self.copy >= 0 and (text := os.pread(self.descriptor, _BLOCK_BYTES, self.copied)):
            self.copied += len(text)
            with contextlib.suppress(OSError):
                os.write(self.copy, text)

    def shorten(self, slack_bytes: int = _SLACK_BYTES) -> None:
        """Take out the middle if the file is longer than what is kept, and `slack_bytes` more."""
        self.show()
        size = self._size()
        if size <= HEAD_BYTES + TAIL_BYTES + slack_bytes:
            return
        tail = os.pread(self.descriptor, TAIL_BYTES, size - TAIL_BYTES)
        tail = tail[_first_end(tail) :]
        if not self.head:
            head = os.pread(self.descriptor, HEAD_BYTES, 0)
            self.head = HEAD_BYTES - max(_first_end(head[::-1]) - 1, 0)
        self.left_out += self._size() - self.head - len(self.note) - len(tail)
        self.note = f"\n[profkit left out {self.left_out:,} bytes of output here]\n".encode()
        os.ftruncate(self.descriptor, self.head)
        os.write(self.descriptor, self.note + tail)
        self.copied = self._size()

    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shorten the file for the last time, and close it."""
        self.shorten(slack_bytes=0)
        os.close(self.descriptor)
        if self.copy >= 0:
            os.close(self.copy)


def _first_end(text: bytes) -> int:
    """Return where the first line of `text` ends, or its first word; 0 if neither does soon.

    What is cut within a word might be half a secret, which is not known for one.
    """
    near = text[:_NEAR_BYTES]
    return near.find(b"\n") + 1 or near.find(b" ") + 1
