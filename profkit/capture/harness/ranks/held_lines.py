"""A file whose lines are written without letting other threads go on.

One that computes in Python keeps the interpreter for 5 ms once it has it: at each line of an
ordinary file a step would wait for that long.
"""

import ctypes
import os
from pathlib import Path

_WRITE = ctypes.PyDLL(None).write
_WRITE.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_WRITE.restype = ctypes.c_ssize_t


class HeldLines:
    """A new file at `path`; what is written is there at once."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)

    def write(self, text: str) -> None:
        """Write `text`; raises OSError as an ordinary file does."""
        data = text.encode()
        written = _WRITE(self.descriptor, data, len(data))
        # A part, or nothing: the ordinary way writes the rest, or says what is wrong.
        left = data[max(written, 0) :]
        while left:
            left = left[os.write(self.descriptor, left) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)
