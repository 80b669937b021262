"""Texts by number: a trace repeats few of them a great many times."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from profkit.convert.columns.values import REMEMBERED_BYTES, compact_json, packed
from profkit.core.secret_urls import without_passwords
from profkit.tables import schema

Column = NDArray[Any]

_REMEMBERED = 1 << 15
"""Texts of which it is remembered what holds for them, at most."""


class _Numbering(defaultdict[str, int]):
    """Numbers that strings get when they are first asked for; "" has number 0."""

    def __init__(self, texts: Iterable[str] = ("",)) -> None:
        numbers = count()
        # Of a method in C, as many texts of a small trace are new.
        super().__init__(numbers.__next__, zip(texts, numbers, strict=False))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process needs."""
        return _Numbering, (list(self),)


class _OfJson(dict[bytes, int]):
    """The number of JSON by what was written, which saves looking up what it is in short."""

    def __init__(self, numbers: _Numbering) -> None:
        super().__init__()
        self._numbers = numbers
        self._kept_bytes = 0

    def __missing__(self, text: bytes) -> int:
        self._kept_bytes += len(text)
        if self._kept_bytes > REMEMBERED_BYTES:
            self.clear()
            self._kept_bytes = len(text)
        found = self[text] = self._numbers[compact_json(text)]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process needs."""
        return _OfJson, (self._numbers,)


class Text:
    """Strings by number, in the order in which they were first seen; "" is number 0."""

    def __init__(self) -> None:
        self.numbers = _Numbering()
        self._of_json = _OfJson(self.numbers)
        self._listed: list[str] = []

    @property
    def listed(self) -> list[str]:
        """The strings, by number, without the passwords of addresses: reports are shared."""
        if len(self._listed) < len(self.numbers):
            self._listed = [
                without_passwords(text) if "://" in text else text for text in self.numbers
            ]
        return self._listed

    def codes(self, values: Iterable[str]) -> Column:
        """Return the number of each value."""
        return packed([*map(self.numbers.__getitem__, values)], "i")

    def json_codes(self, values: Sequence[msgspec.Raw]) -> Column:
        """Return the number of each value, written without white space."""
        if not any(values):  # all are empty, as in many columns
            return np.zeros(len(values), dtype=np.int32)
        # `bytes` of each takes twice as long. No zero is among them: JSON decodes without.
        listed = b"\0".join(values).split(b"\0")
        return packed([*map(self._of_json.__getitem__, listed)], "i")

    def decoded(self, codes: Column) -> pa.DictionaryArray:
        """Return the values as an Arrow dictionary array, with no value that does not occur."""
        return Occurring(self, [codes]).of(codes)

    def merged(self, other: "Text") -> Column:
        """Return, by its number in `other`, the number of each string here."""
        return self.codes(other.numbers)

    def matching(self, found: Callable[[str], object]) -> NDArray[np.bool_]:
        """Return, by number, whether `found` holds for the string."""
        return self.mapped(found, np.bool_)

    def mapped(self, found: Callable[[str], Any], dtype: DTypeLike) -> Column:
        """Return, by number, what `found` is of the string."""
        known = _known(found)
        if len(known) + len(self.numbers) > _REMEMBERED:
            known.clear()
        of_text = known.__getitem__ if len(self.numbers) <= _REMEMBERED else found
        return np.fromiter(map(of_text, self.numbers), dtype, len(self.numbers))


class _Known(dict[str, Any]):
    """What a function returns, by text: the files of many ranks repeat each other's texts."""

    def __init__(self, found: Callable[[str], Any]) -> None:
        super().__init__()
        self._found = found

    def __missing__(self, text: str) -> Any:
        found = self[text] = self._found(text)
        return found


_known = lru_cache(_Known)


class Occurring:
    """The texts that occur in a column, as the dictionary that all of its chunks share."""

    def __init__(self, texts: Text, chunks: Iterable[Column]) -> None:
        used = np.zeros(len(texts.numbers), dtype=np.bool_)
        for codes in chunks:
            used[codes] = True
        self._position = np.cumsum(used, dtype=np.int32) - np.int32(1)
        listed = texts.listed
        self._dictionary = schema.strings([listed[n] for n in np.flatnonzero(used).tolist()])

    def of(self, codes: Column) -> pa.DictionaryArray:
        """Return the values of some rows."""
        return schema.coded(self._position[codes], self._dictionary)
