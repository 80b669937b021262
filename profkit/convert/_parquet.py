"""Tables as Parquet files."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from profkit.tables import schema
from profkit.tables.columns import INT


def write(path: Path, name: str, tables: Iterable[pa.Table], *, behind: bool = False) -> int:
    """Write a Parquet file, moved to `path` when it is whole, and return its number of rows.

    `behind`: on a thread, while the next of `tables` is made.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    columns = schema.TABLES[name]
    own = (schema.declared(name, table) for table in tables)
    with pq.ParquetWriter(temporary, columns, compression="zstd", **_encoding(columns)) as writer:
        rows = _write_behind(writer, own) if behind else _write(writer, own)
    temporary.replace(path)
    return rows


def _write(writer: pq.ParquetWriter, tables: Iterable[pa.Table]) -> int:
    # Without a thread: most tables of most ranks are so small that one takes as long as they do.
    rows = 0
    for table in tables:
        writer.write_table(table)
        rows += len(table)
    return rows


def _write_behind(writer: pq.ParquetWriter, tables: Iterable[pa.Table]) -> int:
    rows = 0
    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(lambda: None)
        for table in tables:
            writing.result()
            writing = thread.submit(writer.write_table, table)
            rows += len(table)
        writing.result()
    return rows


def _encoding(columns: pa.Schema) -> dict[str, Any]:
    """Return how columns are written: texts as dictionaries, large integers as differences.

    Numbers repeat little, so that dictionaries of them only take time; most of them, like times
    and rows, differ little from the one before, which halves the time of compressing them. Small
    ones, like ranks and steps, are mostly equal: they compress as fast as they are. The least and
    the greatest of texts would take a fifth of the time, and have no reader.
    """
    texts = [column.name for column in columns if pa.types.is_dictionary(column.type)]
    whole = [column.name for column in columns if pa.types.is_integer(column.type)]
    large = [name for name in whole if columns.field(name).type == INT]
    return {
        "use_dictionary": texts,
        "write_statistics": whole,
        "column_encoding": dict.fromkeys(large, "DELTA_BINARY_PACKED"),
    }
