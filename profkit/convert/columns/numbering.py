"""Texts by number: a trace repeats few of them a great many times."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert.columns.values import compact_json, packed
from profkit.tables import schema

Column = NDArray[Any]

_REMEMBERED = 1 << 15
"""Texts of which it is remembered what holds for them, at most."""


class _Numbering(dict[str, int]):
    """Numbers that strings get when they are first asked for."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class _JsonNumbering(dict[bytes, int]):
    """Numbers of JSON texts: those of the same text without white space."""

    def __init__(self, numbers: _Numbering) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, text: bytes) -> int:
        number = self[text] = self._numbers[compact_json(text)]
        return number


class Text:
    """Strings by number, in the order in which they were first seen; "" is number 0."""

    def __init__(self) -> None:
        self.numbers = _Numbering({"": 0})
        self._json = _JsonNumbering(self.numbers)

    def codes(self, values: Iterable[str]) -> Column:
        """Return the number of each value."""
        return packed([*map(self.numbers.__getitem__, values)], "i")

    def json_codes(self, values: Sequence[msgspec.Raw]) -> Column:
        """Return the number of each value, written without white space."""
        return packed([*map(self._json.__getitem__, _texts(values))], "i")

    def decoded(self, codes: Column) -> pa.DictionaryArray:
        """Return the values as an Arrow dictionary array, with no value that does not occur."""
        return Occurring(self, [codes]).of(codes)

    def merged(self, other: "Text") -> Column:
        """Return, by its number in `other`, the number of each string here."""
        return self.codes(other.numbers)

    def matching(self, found: Callable[[str], object]) -> NDArray[np.bool_]:
        """Return, by number, whether `found` holds for the string."""
        known = _known(found)
        if len(known) + len(self.numbers) > _REMEMBERED:
            known.clear()
        of_text = known.__getitem__ if len(self.numbers) <= _REMEMBERED else found
        return np.fromiter(map(of_text, self.numbers), np.bool_, len(self.numbers))


class _Known(dict[str, bool]):
    """Whether a function holds, by text: the files of many ranks repeat each other's texts."""

    def __init__(self, found: Callable[[str], object]) -> None:
        super().__init__()
        self._found = found

    def __missing__(self, text: str) -> bool:
        holds = self[text] = bool(self._found(text))
        return holds


_known = lru_cache(_Known)


def _texts(values: Sequence[msgspec.Raw]) -> Sequence[bytes]:
    """Return the bytes of each value."""
    # `bytes` of each takes three times as long. No zero is among them: JSON decodes without.
    return b"\0".join(values).split(b"\0") if values else ()


class Occurring:
    """The texts that occur in a column, as the dictionary that all of its chunks share."""

    def __init__(self, texts: Text, chunks: Iterable[Column]) -> None:
        used = np.zeros(len(texts.numbers), dtype=np.bool_)
        for codes in chunks:
            used[codes] = True
        occurring = np.flatnonzero(used)
        self._position = np.zeros(len(used), dtype=np.int32)
        self._position[occurring] = np.arange(len(occurring))
        values = list(texts.numbers)
        self._dictionary = schema.strings([values[number] for number in occurring.tolist()])

    def of(self, codes: Column) -> pa.DictionaryArray:
        """Return the values of some rows."""
        return schema.coded(self._position[codes], self._dictionary)
