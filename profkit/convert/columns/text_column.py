"""Whole columns of texts by number."""

import pyarrow as pa

from profkit.convert.columns.numbering import Column, Occurring, Text
from profkit.convert.columns.on_disk import DiskColumn


class TextColumn:
    """A whole column of texts by number, of which chunks are wanted."""

    def __init__(self, texts: Text, codes: DiskColumn) -> None:
        self._codes = codes
        self._occurring = Occurring(texts, codes.parts())

    def of(self, rows: slice | Column) -> pa.DictionaryArray:
        """Return the values of some rows."""
        return self._occurring.of(self._codes()[rows])
