"""What a recorder hands over to be linked: the rows of each kind as columns, kept in a file."""

from collections import defaultdict

import numpy as np

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.spill import Block, Scratch, Spill
from profkit.convert.columns.stored import Columns
from profkit.convert.columns.values import UNKNOWN_NS
from profkit.convert.linking.messages import Messages

KIND_COUNT = 11
(OPERATOR, ANNOTATION, CALL, KERNEL, COPY, SET, SPAN, MEMORY, COUNTED, PYTHON,
 SYNCHRONISATION) = range(KIND_COUNT)  # fmt: skip

_TIME = ("start", "end", "name")
_THREAD = ("pid", "tid")
_CALL = ("message", "call_number")
COLUMNS = {
    "ops": (*_TIME, *_THREAD, "external", "sequence", "forward_tid", "shapes", "types", "inputs",
            "stack", *_CALL, "kind"),
    "calls": (*_TIME, *_THREAD, "correlation", "external"),
    "device_work": (*_TIME, "device", "stream", "correlation", "graph", "graph_node", "external",
                    "size", "what", *_CALL, "grid", "block", "registers", "shared_memory",
                    "blocks_per_sm", "warps_per_sm", "occupancy", "kind"),
    "device_annotations": (*_TIME, "tid", "external"),
    "memory": ("start", *_THREAD, "device_type", "device_id", "size", "address", "allocated",
               "reserved"),
    "counters": ("start", "name", "range", "metric", "value"),
    "python": (*_TIME, *_THREAD),
    "synchronisations": (*_TIME, "device", "stream", "correlation", "awaited_stream",
                         "awaited_correlation"),
}  # fmt: skip
"""The columns of each table."""

_CODES = ("name", "shapes", "types", "inputs", "stack", "message", "what", "grid", "block",
          "metric")  # fmt: skip
"""Columns of numbers of texts and messages, of which 0 is none."""

_FLOATS = ("blocks_per_sm", "warps_per_sm", "occupancy", "value")


def unknown(column: str, rows: int) -> Column:
    """Return `column` for as many `rows` of which it is not known."""
    if column == "kind":
        return np.zeros(rows, dtype=np.int8)
    if column in _CODES:
        return np.zeros(rows, dtype=np.int32)
    return np.full(rows, np.nan) if column in _FLOATS else np.full(rows, -1, dtype=np.int64)


class Gathered:
    """The columns of one recording: `put` rows of a table, then ask for its `columns`."""

    def __init__(self, scratch: Scratch | None = None, spill: Spill | None = None) -> None:
        """Keep the columns in `spill`, or in a file in `scratch`, or in a folder of their own."""
        self.scratch = scratch or Scratch()
        self.spill = spill or Spill(self.scratch.path)
        self.names = Text()
        self.texts = Text()
        self.messages = Messages()
        self.found = False
        """Whether there is any row."""
        self.without_time = 0
        """Number of rows that were left out because their time is unknown."""
        self.blocks: dict[str, list[Block]] = defaultdict(list)
        """Where the columns of each table are, block by block."""
        for table, names in COLUMNS.items():
            self._keep(table, {name: unknown(name, 0) for name in names})

    def columns(self, table: str) -> Columns:
        """Return the columns of `table`."""
        return Columns(self.spill, self.blocks[table])

    def put(self, table: str, columns: dict[str, Column]) -> None:
        """Append rows of `table`; those without a time are left out."""
        self.found = True
        self._keep(table, columns)

    def _keep(self, table: str, columns: dict[str, Column]) -> None:
        timed = columns["start"] != UNKNOWN_NS
        if not timed.all():
            self.without_time += int((~timed).sum())
            columns = {name: column[timed] for name, column in columns.items()}
        self.blocks[table].append(self.spill.keep(columns))
