"""Whole columns of texts by number."""

import numpy as np
import pyarrow as pa

from profkit.convert.kineto.numbering import Column, Occurring, Text
from profkit.convert.kineto.spill import Held, Spill


class Coded:
    """A whole column of texts by number, of which chunks are wanted; it is kept in `spill`."""

    def __init__(self, texts: Text, codes: Column, spill: Spill) -> None:
        self._codes = Held(spill, codes.astype(np.int32))
        self._occurring = Occurring(texts, [codes])

    def of(self, rows: slice | Column) -> pa.DictionaryArray:
        """Return the values of some rows."""
        return self._occurring.of(self._codes()[rows])
