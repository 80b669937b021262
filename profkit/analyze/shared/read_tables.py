"""Tables as data frames: whole, of several runs, or a part at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.analyze.base import Columns
from profkit.analyze.shared import closed_steps, large_table
from profkit.analyze.shared.step_windows import filtered
from profkit.core.errors import InputError
from profkit.core.rank_spans import EVERY_RANK, RankSpan
from profkit.tables import schema

T = TypeVar("T")
Parts = Iterator[tuple[str, dict[str, pd.DataFrame]]]
"""Names of parts, each with its rows of each table."""

_SMALL_VALUES = 4 << 20
"""Values of a table that is read at once: its columns cost more than its values."""
_NO_COLUMNS: Mapping[str, Columns] = {}


def readable(path: Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of the file at `path`; raises `InputError` if it cannot be read."""
    try:
        return read(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="convert the captures first") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint="delete it, run again") from None


def frame(paths: Sequence[Path], columns: Columns | None = None) -> pd.DataFrame:
    """Read the first table, or `columns` of it; dictionary-coded text becomes a Categorical."""
    return readable(paths[0], partial(_whole, columns=columns))


def _whole(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        return _groups(file, range(file.num_row_groups), columns)


def _groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None
) -> pd.DataFrame:
    """Return groups of rows as a frame."""
    names = list(columns or file.schema_arrow.names)
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    if rows * len(names) <= _SMALL_VALUES:
        return _pandas(file.read_row_groups(list(groups), names))
    narrow = columns.narrow if isinstance(columns, Columns) else frozenset[str]()
    found = large_table.read(file, groups, names, narrow)
    pa.default_memory_pool().release_unused()
    return found


@dataclass(frozen=True)
class _LargeFile(large_table.LargeTable):
    """A large table in a file, of which only what is asked for is read."""

    path: Path
    file: pq.ParquetFile
    columns: Sequence[str] | None

    @classmethod
    def at(cls, path: Path, columns: Sequence[str] | None) -> Self:
        """Open the file at `path`."""
        file = readable(path, pq.ParquetFile)
        return cls(partial(_portions, file, columns), path, file, columns)

    @cached_property
    def _known(self) -> list[dict[int, int]]:
        return readable(self.path, lambda _: _rows_of_ranks(self.file))

    @cached_property
    def _ranges(self) -> list[tuple[closed_steps.Range, closed_steps.Range]]:
        return closed_steps.ranges(self.file)

    def names(self) -> Sequence[str]:
        """See `LargeTable.names`; those that were not chosen are read for what is asked for."""
        return [*self.file.schema_arrow.names]

    def groups(self) -> Sequence[Mapping[int, int]]:
        """See `LargeTable.groups`; reads next to nothing where these are of one rank each."""
        return self._known

    def near(self, ranks: Collection[int]) -> list[int]:
        """Return the groups of rows that have some of these ranks."""
        return [at for at, rows in enumerate(self._known) if not rows.keys().isdisjoint(ranks)]

    def of_ranks(
        self, ranks: Collection[int], span: closed_steps.Span | None = None
    ) -> pd.DataFrame:
        """See `LargeTable.of_ranks`; of one rank only what is in `span` if that is not None."""
        near, wanted = self.near(ranks), {*ranks}
        read = partial(self._of_span, near, span) if span else partial(self._of_ranks, near, wanted)
        return readable(self.path, lambda _: read())

    def _of_ranks(self, near: Sequence[int], ranks: set[int]) -> pd.DataFrame:
        rows = _groups(self.file, near, self.columns)
        if all(self._known[group].keys() <= ranks for group in near):
            return rows
        own = np.concatenate([_ranks_of_group(self.file, group) for group in near])
        return rows[np.isin(own, [*ranks])].reset_index(drop=True)

    def _of_span(self, near: Sequence[int], span: closed_steps.Span) -> pd.DataFrame:
        names = list(self.columns or self.file.schema_arrow.names)
        needed = [name for name in closed_steps.NEEDED if name in self.file.schema_arrow.names]
        groups = [group for group in near if span.may_be_in(*self._ranges[group])]
        rows = _groups(self.file, groups, list(dict.fromkeys((*names, *needed))))
        return filtered(rows, span.holds(rows))[names].reset_index(drop=True)

    def only(self, ranks: Collection[int]) -> large_table.LargeTable:
        """See `LargeTable.only`; the others are not read."""
        of_some = partial(_portions, self.file, self.columns, self.near(ranks), {*ranks})
        return large_table.LargeTable(of_some)

    def narrowed(self, names: Sequence[str]) -> large_table.LargeTable:
        """See `LargeTable.narrowed`."""
        return large([self.path], names)


class _SmallFile(large_table.LargeTable):
    """A table that is in memory once it was asked for; of all its ranks it is not copied."""

    def of_ranks(
        self, ranks: Collection[int], span: closed_steps.Span | None = None
    ) -> pd.DataFrame:
        """See `LargeTable.of_ranks`."""
        [rows] = self.only(ranks).portions()
        return (filtered(rows, span.holds(rows)) if span else rows).reset_index(drop=True)

    def only(self, ranks: Collection[int]) -> large_table.LargeTable:
        """See `LargeTable.only`."""
        [rows] = self.portions()
        chosen = rows["rank"].isin([*ranks]).to_numpy()
        return self if chosen.all() else large_table.LargeTable.of(rows[chosen])


def large(paths: Sequence[Path], columns: Sequence[str] | None = None) -> large_table.LargeTable:
    """Return the first table, or `columns` of it, to be read some rows or ranks at a time.

    A small one is read once.
    """
    found = _LargeFile.at(paths[0], columns)
    names = list(columns or found.file.schema_arrow.names)
    if found.file.metadata.num_rows * len(names) > _SMALL_VALUES:
        return found
    whole = cache(partial(readable, paths[0], partial(_whole, columns=names)))
    # Who adds a column adds it to a frame of its own.
    return _SmallFile(lambda: iter((whole().copy(deep=False),)))


def _portions(
    file: pq.ParquetFile,
    columns: Sequence[str] | None,
    groups: Sequence[int] | None = None,
    ranks: Collection[int] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, or of some `ranks` in some `groups`, a portion at a time."""
    near = range(file.num_row_groups) if groups is None else groups
    for rows in large_table.portions(file, columns or file.schema_arrow.names, near):
        yield rows if ranks is None else filtered(rows, rows["rank"].isin(ranks))
    pa.default_memory_pool().release_unused()


def _table(path: Path, columns: Columns | None = None) -> pa.Table:
    """Read a table without the discovery of folders that `pq.read_table` begins with."""
    with pq.ParquetFile(path) as file:
        return file.read(columns and list(columns))


def _pandas(table: pa.Table) -> pd.DataFrame:
    """Return `table` as a frame, without copying where possible; `table` is used up."""
    rows: pd.DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
    return rows


def frame_of_runs(paths: Sequence[Path], columns: Columns | None = None) -> pd.DataFrame:
    """Read the first table of each run, results/runs/<run>/tables/<tool>/<table>.parquet."""
    first = _first_by_run(paths)
    parts = []
    for code, path in enumerate(first.values()):
        rows = readable(path, partial(_table, columns=columns))
        codes = pa.array(np.full(len(rows), code, dtype=np.int32))
        parts.append(rows.append_column("run", pa.DictionaryArray.from_arrays(codes, [*first])))
    # In files of earlier versions all columns may be null.
    return _pandas(pa.concat_tables(parts, promote_options="default").unify_dictionaries())


def _first_by_run(paths: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(path.resolve().parents[2].name, path)
    return found


def run_by_run(
    files: Mapping[str, Sequence[Path]], columns: Mapping[str, Columns] = _NO_COLUMNS
) -> Parts:
    """Yield each run with its tables; `files` has those of all runs by the table's name.

    A table that a run has not is empty.
    """
    by_table = {name: _first_by_run(paths) for name, paths in files.items()}
    for run in dict.fromkeys(run for paths in by_table.values() for run in paths):
        yield (
            run,
            {
                name: frame([paths[run]], columns.get(name)) if run in paths else schema.frame(name)
                for name, paths in by_table.items()
            },
        )


def rank_batches(
    files: Mapping[str, Sequence[Path]],
    columns: Mapping[str, Columns] = _NO_COLUMNS,
    ranks_in: RankSpan = EVERY_RANK,
) -> Parts:
    """Yield batches of whole ranks, or parts of a rank with more rows, see `large_table.parts`."""
    tables = {name: _LargeFile.at(paths[0], columns.get(name)) for name, paths in files.items()}
    for number, rows in enumerate(large_table.parts(tables, ranks_in)):
        yield str(number), rows


def _rows_of_ranks(file: pq.ParquetFile) -> list[dict[int, int]]:
    """Return for each group of rows how many each rank has of them."""
    at = file.schema_arrow.names.index("rank")
    found: list[dict[int, int]] = []
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        known = group.column(at).statistics
        if known is not None and known.has_min_max and known.min == known.max:
            found.append({int(known.min): group.num_rows})
        else:
            ranks, counts = np.unique(_ranks_of_group(file, number), return_counts=True)
            found.append(dict(zip(ranks.tolist(), counts.tolist(), strict=True)))
    return found


def _ranks_of_group(file: pq.ParquetFile, number: int) -> NDArray[np.int64]:
    ranks: NDArray[np.int64] = file.read_row_group(number, ["rank"])["rank"].to_numpy()
    return ranks
