"""What a recorder hands over to be linked: rows of each kind as columns, kept in a file.

A kind of rows is called like the table that it becomes, and has the columns of that table. So a
column that only a recorder knows passes into its table without being named here.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.spill import Block, Layout, Scratch, Spill
from profkit.convert.columns.values import UNKNOWN_NS
from profkit.convert.linking.messages import Messages
from profkit.tables.columns import FLOAT, INT, SMALL, TEXT, WHERE
from profkit.tables.schema import TABLES

KIND_COUNT = 11
(OPERATOR, ANNOTATION, CALL, KERNEL, COPY, SET, SPAN, MEMORY, COUNTED, PYTHON,
 SYNCHRONISATION) = range(KIND_COUNT)  # fmt: skip

_KIND = pa.int8()
_UNKNOWN = {
    TEXT: Layout(0, np.dtype(np.int32).str, 0),
    INT: Layout(0, np.dtype(np.int64).str, -1),
    SMALL: Layout(0, np.dtype(np.int64).str, -1),
    FLOAT: Layout(0, np.dtype(np.float64).str, np.nan),
    _KIND: Layout(0, np.dtype(np.int8).str, 0),
}
"""How a column of each type is kept, and its number when unknown; texts are kept by number."""

_SPAN = {"start": INT, "end": INT}
_CALL = {"message": TEXT, "call_number": INT}
_LINKED: Mapping[str, Mapping[str, pa.DataType]] = {
    "cpu_ops": {**_SPAN, **_CALL, "kind": _KIND},
    "runtime_calls": {**_SPAN, "pid": INT, "external": INT},
    "kernels": {**_SPAN, **_CALL, "kind": _KIND, "external": INT, "what": TEXT},
    "annotations": {**_SPAN, "external": INT},
    "memory_events": {"start": INT, "pid": INT, "device_type": INT, "device_id": INT},
    "kernel_metrics": {"start": INT, "range": INT},
    "python_calls": _SPAN,
    "synchronisations": _SPAN,
}
"""What linking reads of each kind of rows besides the columns of their table.

Annotations on the CPU are rows of `cpu_ops`; those of `annotations` are their spans on devices.
"""


TIMES = {"start_ns": "start", "end_ns": "end", "time_ns": "start"}
"""Times of tables, and the columns that they are gathered as: on the clock of the recorder."""

_NOT_GATHERED = {*TIMES, *(name for name, *_ in WHERE)}
_TYPES = {
    table: {field.name: field.type for field in TABLES[table] if field.name not in _NOT_GATHERED}
    | dict(linked)
    for table, linked in _LINKED.items()
}
"""The type of each column, by kind of rows."""

_LAYOUTS = {
    table: {name: _UNKNOWN[kind] for name, kind in types.items()} for table, types in _TYPES.items()
}
_EMPTY = {
    table: Block(path="", offset=0, rows=0, layouts=layouts) for table, layouts in _LAYOUTS.items()
}
"""No rows of each kind; every recording begins with these."""


class Gathered:
    """The columns of one recording: `put` rows of a kind, then ask for its `columns`."""

    def __init__(self, scratch: Scratch | None = None, spill: Spill | None = None) -> None:
        """Keep the columns in `spill`, or in a file in `scratch`, or in a folder of their own."""
        self.scratch = scratch or Scratch()
        self.spill = spill or Spill(self.scratch)
        self.names = Text()
        self.texts = Text()
        self.messages = Messages()
        self.found = False
        """Whether there is any row."""
        self.without_time = 0
        """Number of rows that were left out because their time is unknown."""
        self.blocks = {table: [block] for table, block in _EMPTY.items()}
        """Where the columns of each kind of rows are, block by block."""

    def columns(self, table: str) -> Columns:
        """Return the columns of the rows of `table`."""
        return Columns(self.spill, self.blocks[table])

    def put(self, table: str, columns: dict[str, Column]) -> None:
        """Append rows of `table`; those without a time are left out.

        Columns that are left out are unknown; raises KeyError for one that is not declared.
        """
        if undeclared := columns.keys() - _TYPES[table].keys():
            raise KeyError(f"rows of {table!r} have no column {sorted(undeclared)}")
        self.found = True
        self._keep(table, columns)

    def text(self, column: str) -> Text:
        """Return the texts that the numbers in `column` stand for."""
        return self.names if column == "name" else self.texts

    def append(self, later: "Gathered") -> None:
        """Append the rows of a later part of the recording."""
        first = len(self.spill.renumberings)
        self.spill.renumberings += [
            self.texts.merged(later.texts),
            self.names.merged(later.names),
            self.messages.merged(later.messages),
        ]
        others = {"name": first + 1, "message": first + 2}
        for table, blocks in later.blocks.items():
            texts = [name for name, kind in _TYPES[table].items() if kind == TEXT]
            numbers = {name: others.get(name, first) for name in texts}
            self.blocks[table] += [replace(block, renumberings=numbers) for block in blocks]
        self.found |= later.found
        self.without_time += later.without_time

    def _keep(self, table: str, columns: dict[str, Column]) -> None:
        timed = columns["start"] != UNKNOWN_NS
        if not timed.all():
            self.without_time += int((~timed).sum())
            columns = {name: column[timed] for name, column in columns.items()}
        self.blocks[table].append(self.spill.keep(columns, _LAYOUTS[table]))
