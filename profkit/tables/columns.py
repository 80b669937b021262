"""Types of columns, their values when unknown, and the columns that many tables have."""

import math

import pyarrow as pa

TEXT = pa.dictionary(pa.int32(), pa.string())
INT = pa.int64()
SMALL = pa.int32()
FLOAT = pa.float64()

UNKNOWN: dict[pa.DataType, str | float | int] = {TEXT: "", INT: -1, SMALL: -1, FLOAT: math.nan}
"""Value of a column in rows of which it is not known: converters leave out such columns."""

WHERE = (
    ("rank", SMALL, "Global rank of the process."),
    ("repeat", SMALL, "Repeat of the capture, from 0."),
)
WHEN = (
    ("start_ns", INT, "Start, in ns on the clock of the capture."),
    ("end_ns", INT, "End, in ns on the same clock."),
)
OP = ("op", INT, "Row of `cpu_ops` (its `op`) that encloses or launched this; -1 if none.")
STEP = ("step", SMALL, "Step in which it was launched (device work) or started; -1 if outside.")
MODULE = (
    "module",
    TEXT,
    "nn.Modules around it (around the forward operator, if backward), as a path with semicolons.",
)
PHASE = ("phase", TEXT, "forward, backward, optimizer or data; empty if unknown.")


def table(doc: str, *columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Return a table of `columns`, each a name, a type of `UNKNOWN` and its meaning.

    That numbers and texts are never null is declared: Parquet would note of each row that it is
    not, which takes a sixth of the time of writing and a half of that of reading. Floats that are
    NaN are null to pandas.
    """
    fields = [
        pa.field(name, kind, nullable=kind == FLOAT, metadata={"doc": text})
        for name, kind, text in columns
    ]
    return pa.schema(fields, metadata={"doc": doc})
