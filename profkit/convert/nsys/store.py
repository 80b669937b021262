"""The tables of an exported report, whatever they were exported to: SQLite, or Parquet files."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.core.errors import InputError

Ints = NDArray[np.int64]

UNKNOWN = -1
"""What stands for a null, and for a column that this version has not got."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_HINT = "export it again with: nsys export --type sqlite REPORT"


class Store(Protocol):
    """One exported report."""

    tables: dict[str, frozenset[str]]
    """Columns of each table."""

    no_numbers: dict[str, int]
    """How many values, by column, are something else where `ints` wants whole numbers."""

    no_texts: dict[str, int]
    """How many values, by column, are something else where `texts` wants texts in UTF-8."""

    def ints(self, table: str, columns: Sequence[str]) -> dict[str, Ints]:
        """Return whole numbers, -1 for null; of columns that are absent, -1 throughout."""

    def texts(self, table: str, column: str) -> list[str]:
        """Return texts, "" for null; of a column that is absent, "" throughout."""


class SqliteStore:
    """A report as SQLite. Its rows come in the same order from call to call."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = [str(name) for (name,) in connection.execute(query)]
        self.tables = {name: self._columns(name) for name in names}
        self.no_numbers: dict[str, int] = {}
        self.no_texts: dict[str, int] = {}

    def _columns(self, table: str) -> frozenset[str]:
        rows = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return frozenset(str(name) for (name,) in rows)

    def ints(self, table: str, columns: Sequence[str]) -> dict[str, Ints]:
        """See `Store.ints`."""
        present = self.tables.get(table, frozenset())
        own = [name for name in columns if name in present]
        rows = self._rows(table, [f"COALESCE({name}, -1)" for name in own] or ["-1"])
        found = _whole_numbers(rows)
        if found is None:
            found = np.array(self._rows(table, [self._whole(table, name) for name in own]))
        found = found.astype(np.int64).reshape(len(rows), len(own) or 1)
        read = iter(np.ascontiguousarray(found.T))
        return {
            name: next(read) if name in present else np.full(len(rows), UNKNOWN, dtype=np.int64)
            for name in columns
        }

    def _whole(self, table: str, name: str) -> str:
        """Return what selects a column with -1 for what is no whole number; count that."""
        rows = self._rows(table, [f"typeof({name}) NOT IN ('integer', 'null')"])
        if count := sum(int(wrong) for (wrong,) in rows):  # type: ignore[call-overload]
            self.no_numbers[f"{table}.{name}"] = count
        return f"CASE typeof({name}) WHEN 'integer' THEN {name} ELSE -1 END"

    def texts(self, table: str, column: str) -> list[str]:
        """See `Store.texts`."""
        present = column in self.tables.get(table, frozenset())
        rows = self._rows(table, [f"COALESCE({column}, '')" if present else "''"])
        return _texts(f"{table}.{column}", [text for (text,) in rows], self.no_texts)

    def _rows(self, table: str, chosen: Sequence[str]) -> list[tuple[object, ...]]:
        if table not in self.tables:
            return []
        # Names are those of this package, never the file's.
        query = f"SELECT {', '.join(chosen)} FROM {table} ORDER BY rowid"  # noqa: S608
        return self.connection.execute(query).fetchall()


def _whole_numbers(rows: Sequence[tuple[object, ...]]) -> NDArray[Any] | None:
    """Return rows as an array; None if one of them holds anything but whole numbers."""
    try:
        found = np.array(rows)
    except ValueError:  # texts beside bytes
        return None
    return found if not rows or found.dtype == np.int64 else None


class ParquetStore:
    """A report as a folder of Parquet files, one for each table."""

    def __init__(self, path: Path) -> None:
        self.files = {file.stem: file for file in sorted(path.glob("*.parquet"))}
        self.tables = {
            name: frozenset(pq.read_schema(file).names) for name, file in self.files.items()
        }
        self.no_numbers: dict[str, int] = {}
        self.no_texts: dict[str, int] = {}

    def ints(self, table: str, columns: Sequence[str]) -> dict[str, Ints]:
        """See `Store.ints`."""
        read = self._read(table, columns)
        return {
            name: self._whole(f"{table}.{name}", read.column(name))
            if name in read.column_names
            else np.full(len(read), UNKNOWN, dtype=np.int64)
            for name in columns
        }

    def texts(self, table: str, column: str) -> list[str]:
        """See `Store.texts`."""
        read = self._read(table, [column])
        if column not in read.column_names:
            return [""] * len(read)
        kept = read.column(column)
        if pa.types.is_string(kept.type) or pa.types.is_large_string(kept.type):
            kept = kept.cast(pa.large_binary())  # it may hold what no text does
        values = ["" if value is None else value for value in kept.to_pylist()]
        found = [_decoded(value) if isinstance(value, bytes) else value for value in values]
        return _texts(f"{table}.{column}", found, self.no_texts)

    def _read(self, table: str, columns: Sequence[str]) -> pa.Table:
        if table not in self.files:
            return pa.table({name: pa.array([], pa.int64()) for name in columns})
        present = [name for name in columns if name in self.tables[table]]
        # A table without one of the columns still has rows; some column says how many.
        try:
            return pq.read_table(self.files[table], columns=present or [min(self.tables[table])])
        except (pa.ArrowException, OSError) as error:
            file = self.files[table].name
            raise InputError(f"{file}: damaged Parquet file: {error}", hint=_HINT) from None

    def _whole(self, name: str, column: pa.ChunkedArray) -> Ints:
        """Return a column with -1 for null, and throughout if it holds no whole numbers."""
        try:
            # Identifiers may have 64 bits without a sign.
            cast = column.cast(pa.int64(), safe=not pa.types.is_integer(column.type))
        except pa.ArrowException:
            self.no_numbers[name] = len(column) - column.null_count
            return np.full(len(column), UNKNOWN, dtype=np.int64)
        return np.asarray(cast.fill_null(UNKNOWN).to_numpy(), dtype=np.int64)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _texts(column: str, values: Sequence[object], no_texts: dict[str, int]) -> list[str]:
    """Return values as texts, and count those that are none or hold what cannot be read."""
    wrong = sum(not isinstance(value, str) or _REPLACEMENT in value for value in values)
    if wrong:
        no_texts[column] = wrong
    return [value if isinstance(value, str) else str(value) for value in values]


@contextmanager
def opened(path: Path, shown: Path) -> Iterator[Store]:
    """Open an exported report; raises `InputError` about `shown` if it is damaged or none."""
    if path.is_dir():
        try:
            store: Store = ParquetStore(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{shown}: damaged Parquet files: {error}", hint=_HINT) from None
        _check(store, shown)
        yield store
        return
    try:
        # Nothing is written, not even beside it.
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True)
        connection.text_factory = _decoded
        try:
            store = _sqlite_store(connection)
            _check(store, shown)
            yield store
        finally:
            connection.close()
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: damaged SQLite file: {error}", hint=_HINT) from None


def _sqlite_store(connection: sqlite3.Connection) -> Store:
    try:
        return SqliteStore(connection)
    except MemoryError:
        # So SQLite says that its table of tables is damaged, however much memory there is.
        raise sqlite3.DatabaseError("its table of tables cannot be read") from None


def _check(store: Store, shown: Path) -> None:
    if not {"StringIds", "NVTX_EVENTS", "TARGET_INFO_SESSION_START_TIME"} & set(store.tables):
        raise InputError(
            f"{shown}: not a report of Nsight Systems: it has none of its tables",
            hint="give a .nsys-rep file, or what `nsys export --type sqlite` made of one",
        )
