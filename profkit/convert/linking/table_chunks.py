"""Rows of one table, made some at a time of what was recorded and of what linking found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from profkit.convert.columns.numbering import Column, Occurring
from profkit.convert.columns.on_disk import Columns
from profkit.convert.linking.gathered import TIMES, Gathered
from profkit.convert.linking.origin import Origin
from profkit.tables.columns import TEXT
from profkit.tables.schema import TABLES


@dataclass(frozen=True, kw_only=True, slots=True)
class TableChunks:
    """Makes the rows of one table; recorded columns that it has too pass through."""

    name: str
    recorded: Columns
    """All rows as they were recorded."""
    gathered: Gathered
    """What their texts are numbers of."""
    origin: Origin
    _texts: dict[str, Occurring] = field(default_factory=dict, init=False)

    def chunk(self, rows: Mapping[str, Column], **found: Any) -> pa.Table:
        """Return some of the recorded `rows`, with what linking `found` of them."""
        columns = dict(found)
        for column in TABLES[self.name]:
            if column.name in found:
                continue
            if column.name in TIMES:
                columns[column.name] = rows[TIMES[column.name]] + self.origin.base_ns
            elif column.name in rows:
                recorded = rows[column.name]
                is_text = column.type == TEXT
                columns[column.name] = self._decoded(column.name, recorded) if is_text else recorded
        return self.origin.table(self.name, len(next(iter(columns.values()))), columns)

    def _decoded(self, column: str, numbers: Column) -> pa.DictionaryArray:
        if column not in self._texts:
            codes = self.recorded.each(column)
            self._texts[column] = Occurring(self.gathered.text(column), codes)
        return self._texts[column].of(numbers)
