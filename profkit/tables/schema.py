"""The tables that all stages agree on: names, columns, types, units and meaning.

Times are integer nanoseconds, sizes integer bytes, and the unit is in the name. Integers are
never null: -1 means unknown or none. Floats are NaN when unknown. Text is dictionary-coded and
arrives in pandas as a Categorical; unknown text is the empty string. A converter leaves out the
columns that its tool does not record: they are filled with what is unknown.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.core import registry
from profkit.core.errors import PluginError
from profkit.tables import measurements, memory, timeline
from profkit.tables.columns import UNKNOWN, WHERE

if TYPE_CHECKING:
    import pandas as pd


class Tables(Mapping[str, pa.Schema]):
    """The tables of profkit, and those that converters of other packages declare.

    Such converters are imported only when a table is asked for that profkit has not, or all are.
    """

    def __init__(self, own: Mapping[str, pa.Schema]) -> None:
        self._known = dict(own)

    def declare(self, name: str, columns: pa.Schema) -> None:
        """Add a table of another package; raises `PluginError` if it is none, or another has it."""
        where = [column for column, *_ in WHERE]
        if columns.names[: len(where)] != where or not set(columns.types) <= set(UNKNOWN):
            raise PluginError(
                f"table {name!r} must begin with the columns {' and '.join(where)}, of known types",
                hint="declare it with `table` and `WHERE` of profkit.tables.columns",
            )
        if not self._known.setdefault(name, columns).equals(columns):
            raise PluginError(f"the name of table {name!r} is already taken")

    def __getitem__(self, name: str) -> pa.Schema:
        """Return the columns of one table."""
        if name not in self._known:
            self._import_external()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all tables."""
        self._import_external()
        return iter(tuple(self._known))

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(tuple(iter(self)))

    def _import_external(self) -> None:
        for point in registry.external("profkit.convert"):
            importlib.import_module(point.value)


TABLES = Tables({**timeline.TABLES, **memory.TABLES, **measurements.TABLES})
"""Every table by name."""

TIMELINE = ("cpu_ops", "runtime_calls", "kernels", "memory_events", "collectives")
"""Tables that a timeline is drawn from: a tool that makes them all has one."""


def table(name: str, columns: Mapping[str, Sequence[Any] | Any]) -> pa.Table:
    """Return `columns` as table `name`, with its columns in order and of its types.

    Columns that are left out are unknown; raises KeyError for one that the table has not.
    """
    schema = TABLES[name]
    _check(name, columns)
    rows = len(next(iter(columns.values()), ()))
    arrays = [
        _coded(columns[column], kind) if column in columns else _unknown(kind, rows)
        for column, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _check(name: str, columns: Iterable[str]) -> None:
    if unknown := set(columns).difference(TABLES[name].names):
        raise KeyError(f"table {name!r} has no column {sorted(unknown)}")


def _unknown(kind: pa.DataType, rows: int) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return text(np.zeros(rows, dtype=np.int32), [str(UNKNOWN[kind])] if rows else [])
    return numbers(np.full(rows, UNKNOWN[kind]), kind)


def _coded(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return numbers(values, kind)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind) if values.type != kind else values
    made = _of_python(values, kind) if isinstance(values, list | tuple | range) else None
    if made is not None:
        return made
    if pa.types.is_dictionary(kind):
        return pa.array(values, type=kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, type=kind)


def _of_python(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Return what `pyarrow.array` would, without pandas; None if the values are no plain `kind`."""
    if pa.types.is_dictionary(kind):
        if not all(isinstance(value, str) for value in values):
            return None
        numbers_of: dict[str, int] = {}
        codes = [numbers_of.setdefault(value, len(numbers_of)) for value in values]
        return text(np.array(codes, dtype=np.int32), list(numbers_of))
    wanted = np.dtype(kind.to_pandas_dtype())
    plain = np.array(values) if values else np.empty(0, wanted)
    if plain.dtype.kind not in ("i", wanted.kind):
        return None
    own = plain.astype(wanted)
    return numbers(own, kind) if np.array_equal(own, plain, equal_nan=True) else None


def numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers as an Arrow array; raises `OverflowError` where one does not fit `kind`.

    Memory is shared where the type is the same. `pyarrow.array` would do as well, but it imports
    pandas, which takes longer than to convert a small trace.
    """
    own = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    if own.dtype != values.dtype and not np.array_equal(own, values, own.dtype.kind == "f"):
        raise OverflowError(f"numbers that are no {kind}")
    return pa.Array.from_buffers(kind, len(own), [None, pa.py_buffer(own)])


def of_numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers as NumPy's, as its `to_numpy` would, without importing pandas."""
    kind = np.dtype(column.type.to_pandas_dtype())
    parts = [
        np.frombuffer(part.buffers()[1], kind, len(part), part.offset * kind.itemsize)
        for part in column.chunks
        if len(part)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, kind)])


def text(codes: NDArray[Any], values: Sequence[str]) -> pa.DictionaryArray:
    """Return texts by their position in `values`, one for each of `codes`."""
    return coded(codes, strings(values))


def coded(codes: NDArray[Any], dictionary: pa.StringArray) -> pa.DictionaryArray:
    """Return texts by their position in `dictionary`, which chunks of a column may share."""
    return pa.DictionaryArray.from_arrays(numbers(codes, pa.int32()), dictionary)


def strings(values: Sequence[str]) -> pa.StringArray:
    """Return `values` as `pyarrow.array` would, without importing pandas."""
    encoded = [value.encode() for value in values]
    ends = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(encoded) + 1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def declared(name: str, rows: pa.Table) -> pa.Table:
    """Return `rows` as table `name` declares them: in files of earlier versions all may be null."""
    columns = TABLES[name]
    return rows if rows.schema.equals(columns) else rows.cast(columns)


@cache
def empty(name: str) -> pa.Table:
    """Return table `name` without rows."""
    return table(name, {})


def frame(name: str, rows: Iterable[Mapping[str, Any]] = ()) -> "pd.DataFrame":
    """Return `rows` as the pandas table `name`; columns left out are unknown (-1, NaN or "")."""
    given = list(rows)
    for row in given:
        _check(name, row)
    columns = {
        field.name: [row.get(field.name, UNKNOWN[field.type]) for row in given]
        for field in TABLES[name]
    }
    made: pd.DataFrame = table(name, columns).to_pandas()
    return made
