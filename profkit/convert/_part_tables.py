"""Tables of one raw file, on their way to those of all ranks: Parquet, or Arrow if they are small.

A Parquet file of a few thousand rows takes ten times as long to write and read as the same columns
as they lie in memory.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.convert._parquet import write
from profkit.tables import schema

_ARROW = ".arrow"


def write_part(
    folder: Path, name: str, tables: Iterable[pa.Table], *, is_small: bool, behind: bool = False
) -> int:
    """Leave table `name` in `folder` and return its number of rows; `behind` as `write` has it."""
    if not is_small:
        return write(folder / f"{name}.parquet", name, tables, behind=behind)
    rows, kept = 0, pa.BufferOutputStream()
    with pa.ipc.new_stream(kept, schema.TABLES[name]) as stream:
        for table in tables:
            stream.write_table(table)
            rows += len(table)
    # At once: Arrow writes each buffer of each column by itself.
    (folder / f"{name}{_ARROW}").write_bytes(kept.getvalue())
    return rows


def ranks_in(path: Path) -> set[int]:
    """Return the known ranks of the rows of one file; where statistics suffice, nothing is read."""
    known = spans(path, "rank")
    if any(least != most for least, most in known):
        return known_ranks(part_column(path, "rank"))
    return {least for least, _ in known if least >= 0}


def known_ranks(ranks: NDArray[Any]) -> set[int]:
    """Return the ranks in a column `rank`; most are of one alone."""
    if len(ranks) and ranks[0] == ranks[-1] and (ranks == ranks[0]).all():
        ranks = ranks[:1]
    return {rank for rank in np.unique(ranks).tolist() if rank >= 0}


def noting_ranks(ranks: set[int], chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the chunks of a table, and add to `ranks` those of their rows."""
    for chunk in chunks:
        ranks |= known_ranks(schema.of_numbers(chunk["rank"]))
        yield chunk


def part_tables(folder: Path | None) -> dict[str, Path]:
    """Return the files in the folder of one part, by table."""
    return {path.stem: path for path in sorted(folder.iterdir())} if folder else {}


def row_groups(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of one file, a row group at a time."""
    if path.suffix == _ARROW:
        yield _mapped(path)
        return
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def part_column(path: Path, name: str) -> NDArray[Any]:
    """Return one column of integers."""
    if path.suffix == _ARROW:
        found = _mapped(path)
    else:
        with pq.ParquetFile(path) as file:
            found = file.read([name])
    return schema.of_numbers(found[name])


def spans(path: Path, name: str) -> list[tuple[int, int]]:
    """Return the least and the largest number in each group of rows: of Parquet from statistics."""
    if path.suffix == _ARROW:
        table = _mapped(path)
        chunks = table[name].chunks if name in table.column_names else ()
        values = (schema.of_numbers(pa.chunked_array([chunk])) for chunk in chunks if len(chunk))
        return [(int(np.min(own)), int(np.max(own))) for own in values]
    with pq.ParquetFile(path) as file:
        if (at := file.schema_arrow.get_field_index(name)) < 0:
            return []
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        columns = (group.column(at).statistics for group in groups)
        return [(known.min, known.max) for known in columns if known and known.has_min_max]


def _mapped(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        return stream.read_all()
