"""Single values of a snapshot, checked: a stranger's file may hold anything instead of a size."""

import re
import reprlib
from collections.abc import Iterable
from typing import Any

from profkit.convert.columns.values import LARGEST_BYTES

LARGEST = 2**63 - 1
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What stands for text that cannot be read."""
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple = 3, 30, 30, 30
_LONE = re.compile("[\ud800-\udfff]")
_MOST_DEVICES = 4096


def text(value: Any) -> str:
    """Return a text as one that can be written as UTF-8; raises TypeError for anything else."""
    if not isinstance(value, str):
        # Never str(value): lists that share their parts may be small, and endless as text.
        raise TypeError(f"{type(value).__name__} instead of a text")
    # Half of a character, which no encoding can hold, becomes U+FFFD.
    return value if value.isascii() else _LONE.sub(REPLACEMENT, value)


def any_text(value: Any) -> str:
    """Return whatever a setting is as a text, of bounded length: lists may share their parts."""
    return text(value) if isinstance(value, str) else _SHORT.repr(value)


def all_texts(values: Iterable[Any]) -> None:
    """Raise TypeError unless all are texts or None: to compare anything else may take for ever."""
    if others := {*map(type, values)} - {str, type(None)}:
        raise TypeError(f"{others.pop().__name__} instead of a text")


def whole(number: Any) -> int:
    """Return a number that a table can hold; raises TypeError or OverflowError for others."""
    if type(number) is not int:  # True is no number
        raise TypeError(f"{type(number).__name__} instead of a whole number")
    if abs(number) > LARGEST:
        raise OverflowError("a number of more than 63 bits is no size, address or index")
    return int(number)


def word(number: Any) -> int:
    """Return an address or a stream, of 64 bits, as one that a table can hold."""
    if type(number) is not int:
        raise TypeError(f"{type(number).__name__} instead of a whole number")
    if not -LARGEST <= number <= 2 * LARGEST + 1:
        raise OverflowError("an address or a stream has 64 bits")
    return number & LARGEST


def flag(value: Any) -> int:
    """Return 1 for true and 0 for false; raises TypeError for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} instead of true or false")
    return int(value)


def size(number: Any) -> int:
    """Return a number of bytes; raises OverflowError for one that no memory has."""
    if not 0 <= whole(number) <= LARGEST_BYTES:
        raise OverflowError(f"{number} bytes is no size")
    return int(number)


def device_index(number: Any) -> int:
    """Return the index of a device; raises OverflowError for one that no machine has."""
    if not 0 <= whole(number) < _MOST_DEVICES:
        raise OverflowError(f"{number} is no index of a device")
    return int(number)
