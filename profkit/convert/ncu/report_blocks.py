"""How much of a report (.ncu-rep) is there: its blocks, each of which states how long it is.

Behind four letters and a header comes one block after the other: the size of its own header in four
bytes, that header, and the launches or source code that it announces (protocol buffers).
"""

from collections.abc import Iterator
from pathlib import Path

MAGIC = b"NVR\0"
"""How every report begins."""

_SIZE_BYTES = 4
_FIRST = b"\x08"
"""How the header of a block begins: its field 1, an integer."""
_FOLLOWING = 5
"""The field of this header that says how many bytes follow it."""
_INTEGER, _TEXT, _KIND_BITS = 0, 2, 3
"""Kinds of fields that there are in it, and how many bits of a key are for the kind."""
_DIGIT_BITS = 7
_MOST_DIGITS = 10


def cut_behind(path: Path) -> int | None:
    """Return how many bytes of the report at `path` are whole blocks; None if it is whole.

    It is whole, too, where it is written in another way than reports are today.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        end = len(MAGIC) + _SIZE_BYTES
        file.seek(len(MAGIC))
        end += int.from_bytes(file.read(_SIZE_BYTES), "little")
        while end < size:
            file.seek(end)
            length = int.from_bytes(file.read(_SIZE_BYTES), "little")
            header = file.read(min(length, size))
            if header and not header.startswith(_FIRST):
                return None
            try:
                fields = dict(_integers(header)) if len(header) == length else {_FOLLOWING: size}
            except (IndexError, ValueError):
                return None
            following = end + _SIZE_BYTES + len(header) + fields.get(_FOLLOWING, 0)
            if following > size:
                return end
            end = following
    return None


def _integers(header: bytes) -> Iterator[tuple[int, int]]:
    """Yield number and value of the fields that are integers; raises for what is no header."""
    at = 0
    while at < len(header):
        key, at = _integer(header, at)
        value, at = _integer(header, at)
        if key & ((1 << _KIND_BITS) - 1) == _INTEGER:
            yield key >> _KIND_BITS, value
        elif key & ((1 << _KIND_BITS) - 1) == _TEXT:
            at += value
        else:
            raise ValueError(f"a field of kind {key}")


def _integer(header: bytes, at: int) -> tuple[int, int]:
    """Return the integer that begins at `at`, seven bits a byte, and where it ends."""
    value = 0
    for digit in range(_MOST_DIGITS):
        value |= (header[at + digit] & 0x7F) << (_DIGIT_BITS * digit)
        if not header[at + digit] & 0x80:
            return value, at + digit + 1
    raise ValueError("a number of too many bytes")
