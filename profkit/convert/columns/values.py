"""Numbers and texts of any notation as arrays; what cannot be read is marked as unknown."""

import math
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

Number = int | float | str | None
Ints = NDArray[np.int64]

UNKNOWN_NS = np.iinfo(np.int64).min
"""Time of an event whose timestamp is missing or no number."""

LATEST_NS = 2**61
"""Times at or beyond this (year 2043) are damage; sums of three of those below cannot overflow."""

LARGEST_BYTES = 2**50
"""No memory and no copy is as large (1 PiB): a larger size is damage."""

EXACT_BELOW_US = 2.0**43
"""A float64 of microseconds holds whole nanoseconds only below this (about 102 days)."""

_POINT_TO_END = 4
_WHOLE_BELOW_US = LATEST_NS / 1000 - 1
_TRAILING_NUMBER = re.compile(r"-?\d+$")
_WORD = 2**64
REMEMBERED_BYTES = 1 << 20
"""Of JSON whose short form is remembered: the shapes of some thousand operators."""
_DIGITS = 18


@dataclass(slots=True)
class Unreadable:
    """How many values were given where a number belongs, and are none."""

    count: int = 0

    def add(self, values: list[Any], found: Ints, unknown: int) -> None:
        """Count the values that became `unknown` and do not say so themselves."""
        pairs = zip(values, found.tolist(), strict=True)
        self.count += sum(
            number == unknown and str(value) != str(unknown) for value, number in pairs
        )


def scalar(value: Any) -> Any:
    """Return `value` if it is a number or a text, otherwise None."""
    usable = isinstance(value, int | float | str | Decimal) and not isinstance(value, bool)
    return value if usable else None


def nanoseconds(values: list[Any]) -> Ints:
    """Return microseconds of any notation as integer nanoseconds, `UNKNOWN_NS` where there is none.

    Exact to the nanosecond, except for floats of `EXACT_BELOW_US` and more, which the caller
    should have decoded as decimals, or left as the JSON that was written.
    """
    if values and type(values[0]) is msgspec.Raw:
        return _written_nanoseconds(values)
    if values and type(values[0]) is int:  # so are all that older versions write
        with suppress(struct.error):
            whole = packed(values, "q")
            if whole.min() > -_WHOLE_BELOW_US and whole.max() < _WHOLE_BELOW_US:
                return whole * 1000
    with suppress(struct.error, TypeError, OverflowError):
        micros = packed(values, "d")
        if not len(micros) or max(-micros.min(), micros.max()) < EXACT_BELOW_US:
            exact: Ints = micros.astype(np.int64)  # rounded to zero
            fraction = micros - exact
            fraction *= 1000
            exact *= 1000
            exact += np.rint(fraction, out=fraction).astype(np.int64)
            return exact
    return np.fromiter(map(_nanoseconds, values), dtype=np.int64, count=len(values))


def _written_nanoseconds(values: list[msgspec.Raw]) -> Ints:
    """Return the same of JSON: where Kineto wrote it, each has three decimals, and no exponent."""
    text = b",".join(values)
    letters = np.frombuffer(text, dtype=np.uint8)
    points = np.flatnonzero(letters == ord("."))
    ends = np.append(np.flatnonzero(letters == ord(",")), len(text))
    alike = len(points) == len(values) == len(ends) and bool((ends - points == _POINT_TO_END).all())
    if alike and not text.translate(None, b"0123456789.,"):
        nanos: Ints = np.fromstring(text.replace(b".", b""), dtype=np.int64, sep=",")
        if nanos.max() < LATEST_NS:  # the greatest of all if there are more digits
            return nanos
    reader = msgspec.json.Decoder(float_hook=Decimal)
    given = (scalar(reader.decode(value)) for value in values)
    return np.fromiter(map(_nanoseconds, given), dtype=np.int64, count=len(values))


def packed(values: Sequence[Any], code: str) -> NDArray[Any]:
    """Return numbers as an array of a type that `struct` has: ``np.array`` takes twice as long.

    Raises `struct.error` if one of them is no such number, or does not fit.
    """
    return np.frombuffer(struct.pack(f"{len(values)}{code}", *values), dtype=code)


def _nanoseconds(value: Any) -> int:
    try:
        exact = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return UNKNOWN_NS
    # The exponent is looked at first: 1e999999999 would be a number of a billion digits.
    if not exact.is_finite() or exact.adjusted() > _DIGITS:
        return UNKNOWN_NS
    nanos = round(exact * 1000)
    return nanos if abs(nanos) < LATEST_NS else UNKNOWN_NS


def integers(values: list[Any], *, unknown: int = -1, unreadable: Unreadable | None = None) -> Ints:
    """Return values as 64-bit integers; beyond 2^63 the same 64 bits, read as a negative number."""
    try:
        found: Ints = packed(values, "q")
    except struct.error:
        found = np.array([_integer(value, unknown) for value in values], dtype=np.int64)
        if unreadable:
            unreadable.add(values, found, unknown)
    return found


def _integer(value: Any, unknown: int) -> int:
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else None
    if value is None or not -_WORD // 2 <= value < _WORD:
        return unknown
    return int(value) - _WORD if value >= _WORD // 2 else int(value)


def _from_text(value: str) -> int | float | None:
    readers: tuple[Callable[[str], int | float], ...] = (int, _hexadecimal, float)
    for read in readers:
        with suppress(ValueError):
            return read(value)
    return None


def _hexadecimal(value: str) -> int:
    return int(value, 16)


def floats(values: list[Any]) -> NDArray[np.float64]:
    """Return values as floats, NaN where there is no finite number."""
    try:
        found = packed(values, "d")
    except (struct.error, OverflowError):
        found = np.array([_float(value) for value in values], dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def identifiers(
    values: list[Any], names: dict[str, int], unreadable: Unreadable | None = None
) -> Ints:
    """Return process, thread or stream ids; a text gives its last number, or one of `names`.

    Text without a number gets an id of its own below -1, so that threads stay apart.
    """
    try:
        found: Ints = packed(values, "q")
    except struct.error:
        found = np.array([_identifier(value, names) for value in values], dtype=np.int64)
        if unreadable:
            unreadable.add(values, found, -1)
    return found


def _identifier(value: Any, names: dict[str, int]) -> int:
    if not isinstance(value, str):
        return _integer(value, -1)
    if number := _TRAILING_NUMBER.search(value):
        return _integer(number[0], -1)
    return names.setdefault(value, -2 - len(names))


class _Compact(dict[bytes, str]):
    """JSON without white space, by what was written: the files of many ranks repeat it."""

    kept_bytes = 0

    def __missing__(self, text: bytes) -> str:
        self.kept_bytes += len(text)
        if self.kept_bytes > REMEMBERED_BYTES:
            self.clear()
            self.kept_bytes = len(text)
        found = msgspec.json.format(text, indent=-1).decode("utf-8", "replace") if text else ""
        self[text] = found
        return found


compact_json = _Compact().__getitem__
"""Returns JSON without white space, "" for none."""
