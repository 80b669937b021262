"""Single values of a snapshot, checked: a stranger's file may hold anything instead of a size."""

from collections.abc import Iterable
from typing import Any

from profkit.convert.columns.values import LARGEST_BYTES

LARGEST = 2**63 - 1
_MOST_DEVICES = 4096


def text(value: Any) -> str:
    """Return a text as one that can be written as UTF-8; raises TypeError for anything else."""
    if not isinstance(value, str):
        # Never str(value): lists that share their parts may be small, and endless as text.
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value.encode("utf-8", "replace").decode()


def all_texts(values: Iterable[Any]) -> None:
    """Raise TypeError unless all are texts or None: to compare anything else may take for ever."""
    if others := {*map(type, values)} - {str, type(None)}:
        raise TypeError(f"{others.pop().__name__} instead of a text")


def whole(number: Any) -> int:
    """Return a number that a table can hold; raises TypeError or OverflowError for others."""
    if not isinstance(number, int):
        raise TypeError(f"{type(number).__name__} instead of a whole number")
    if abs(number) > LARGEST:
        raise OverflowError("a number of more than 63 bits is no size, address or index")
    return int(number)


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
