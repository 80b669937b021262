"""Tables of one raw file, on their way to those of all ranks: Parquet, or Arrow if they are small.

A Parquet file of a few thousand rows takes ten times as long to write and read as the same columns
as they lie in memory, and to make a file as long as to write some tables: the small ones of a raw
file are in one.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.convert._parquet import write
from profkit.convert.base import Rows
from profkit.tables import schema

_SMALL = "small.arrow"
_SIZE_BYTES = 8


class PartTable(NamedTuple):
    """Where one table of a raw file is: in a Parquet file, or from some byte on in one of Arrow."""

    path: Path
    begin: int = 0
    size_bytes: int = 0
    """0 for Parquet."""

    @property
    def is_parquet(self) -> bool:
        """Whether it is all that its file holds."""
        return not self.size_bytes


def write_tables(
    folder: Path, tables: Mapping[str, Rows], *, is_small: bool, behind: bool = False
) -> tuple[dict[str, int], frozenset[int]]:
    """Leave those of the `tables` that have rows in `folder`; return their sizes and known ranks.

    `behind` as `write` has it.
    """
    rows: dict[str, int] = {}
    small: dict[str, list[pa.Table]] = {}
    ranks: set[int] = set()
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if callable(table):
            rows[name] = table(path)
            ranks |= _ranks_in(PartTable(path))
            continue
        chunks = [table] if isinstance(table, pa.Table) else table
        # Of a thousand ranks most tables are empty, and take as long as some rows.
        some = (chunk for chunk in chunks if len(chunk))
        if (first := next(some, None)) is None:
            continue
        every = _noting_ranks(ranks, chain([first], some))
        if is_small:
            small[name] = [*every]
        else:
            rows[name] = write(path, name, every, behind=behind)
    return rows | (_write_small(folder / _SMALL, small) if small else {}), frozenset(ranks)


def _write_small(path: Path, tables: Mapping[str, Sequence[pa.Table]]) -> dict[str, int]:
    """Leave all `tables` in one file, their index at its end, and return their sizes."""
    places: dict[str, tuple[int, int]] = {}
    kept = pa.BufferOutputStream()
    for name, chunks in tables.items():
        begin = kept.tell()
        with pa.ipc.new_stream(kept, schema.TABLES[name]) as stream:
            for chunk in chunks:
                stream.write_table(schema.declared(name, chunk))
        places[name] = begin, kept.tell() - begin
    index = json.dumps(places).encode()
    kept.write(index)
    kept.write(len(index).to_bytes(_SIZE_BYTES))
    # At once: Arrow writes each buffer of each column by itself.
    path.write_bytes(kept.getvalue())
    return {name: sum(map(len, chunks)) for name, chunks in tables.items()}


def part_tables(folder: Path | None) -> dict[str, PartTable]:
    """Return where the tables in the folder of one part are, by name."""
    if folder is None:
        return {}
    found = {path.stem: PartTable(path) for path in sorted(folder.glob("*.parquet"))}
    small = folder / _SMALL
    return found | _small_tables(small) if small.is_file() else found


def _small_tables(path: Path) -> dict[str, PartTable]:
    with path.open("rb") as file:
        file.seek(-_SIZE_BYTES, os.SEEK_END)
        size = int.from_bytes(file.read(_SIZE_BYTES))
        file.seek(-_SIZE_BYTES - size, os.SEEK_END)
        places = json.loads(file.read(size))
    return {name: PartTable(path, *place) for name, place in places.items()}


def _ranks_in(table: PartTable) -> set[int]:
    """Return the known ranks of the rows of a table; where statistics suffice, nothing is read."""
    known = spans(table, "rank")
    if any(least != most for least, most in known):
        return _known_ranks(part_column(table, "rank"))
    return {least for least, _ in known if least >= 0}


def _known_ranks(ranks: NDArray[Any]) -> set[int]:
    """Return the ranks in a column `rank`; most are of one alone."""
    if len(ranks) and ranks[0] == ranks[-1] and (ranks == ranks[0]).all():
        return {int(ranks[0])} if ranks[0] >= 0 else set()
    return {rank for rank in np.unique(ranks).tolist() if rank >= 0}


def _noting_ranks(ranks: set[int], chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the chunks of a table, and add to `ranks` those of their rows."""
    for chunk in chunks:
        ranks |= _known_ranks(schema.of_numbers(chunk["rank"]))
        yield chunk


def row_groups(table: PartTable) -> Iterator[pa.Table]:
    """Yield the rows of one table, a row group at a time."""
    if not table.is_parquet:
        yield _read(table)
        return
    with pq.ParquetFile(table.path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def part_column(table: PartTable, name: str) -> NDArray[Any]:
    """Return one column of integers."""
    if not table.is_parquet:
        found = _read(table)
    else:
        with pq.ParquetFile(table.path) as file:
            found = file.read([name])
    return schema.of_numbers(found[name])


def spans(table: PartTable, name: str) -> list[tuple[int, int]]:
    """Return the least and the largest number in each group of rows: of Parquet from statistics."""
    if not table.is_parquet:
        rows = _read(table)
        chunks = rows[name].chunks if name in rows.column_names else ()
        values = (schema.of_numbers(pa.chunked_array([chunk])) for chunk in chunks if len(chunk))
        return [(int(np.min(own)), int(np.max(own))) for own in values]
    with pq.ParquetFile(table.path) as file:
        if (at := file.schema_arrow.get_field_index(name)) < 0:
            return []
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        columns = (group.column(at).statistics for group in groups)
        return [(known.min, known.max) for known in columns if known and known.has_min_max]


def _read(table: PartTable) -> pa.Table:
    # A file that is mapped would stay in memory as a whole, for as long as one of its tables.
    with table.path.open("rb") as file:
        file.seek(table.begin)
        content = file.read(table.size_bytes)
    with pa.ipc.open_stream(pa.py_buffer(content)) as stream:
        return stream.read_all()
