"""A large table as a frame that takes little more memory to read than to keep, or in portions.

Or of a few whole ranks at a time: see `batches`.

Columns are filled some rows at a time: what Arrow decodes as a whole is there twice, and what it
then frees in small pieces is of no use for what is large.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from profkit.analyze.shared.closed_steps import OPS, Span, may_cut, spans
from profkit.core.rank_spans import EVERY_RANK, RankSpan

T = TypeVar("T")

_ROWS_AT_ONCE = 1 << 17
_ROWS_OF_BATCH = 1 << 18
"""Rows of all tables after which no further rank is added to a batch."""
_FEW_TEXTS = np.iinfo(np.int16).max
_NARROW = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class LargeTable:
    """A table that is read some rows at a time, as often as it is asked for."""

    portions: Callable[[], Iterator[pd.DataFrame]]
    """Returns all rows in their order, at least one portion; texts are Categoricals."""

    @classmethod
    def of(cls, rows: pd.DataFrame) -> "LargeTable":
        """Return a table that is in memory as one portion."""
        return cls(lambda: iter((rows,)))

    def names(self) -> Sequence[str]:
        """Return the columns that can be read."""
        return [*next(self.portions())]

    def groups(self) -> Sequence[Mapping[int, int]]:
        """Return how many rows each rank has in each portion."""
        counted = (np.unique(rows["rank"], return_counts=True) for rows in self.portions())
        return [dict(zip(*map(np.ndarray.tolist, pair), strict=True)) for pair in counted]

    def of_ranks(self, ranks: Collection[int], span: Span | None = None) -> pd.DataFrame:
        """Return the rows of some ranks in their order; of one what is in `span` if that is set."""
        chosen = [*ranks]

        def wanted(rows: pd.DataFrame) -> NDArray[np.bool_]:
            own = rows["rank"].isin(chosen).to_numpy()
            return own & span.holds(rows) if span else own

        return self.where(wanted)

    def only(self, ranks: Collection[int]) -> "LargeTable":
        """Return the table with the rows of some ranks alone."""
        chosen = [*ranks]
        return LargeTable(
            lambda: (rows[rows["rank"].isin(chosen).to_numpy()] for rows in self.portions())
        )

    def narrowed(self, names: Sequence[str]) -> "LargeTable":
        """Return the table with some of its columns alone."""
        return LargeTable(lambda: (rows[[*names]] for rows in self.portions()))

    def keeping(self, wanted: Callable[[pd.DataFrame], NDArray[np.bool_]]) -> "LargeTable":
        """Return the table with the rows of which `wanted` holds alone."""
        return _Kept(lambda: (rows[wanted(rows)] for rows in self.portions()), self, wanted)

    def where(self, wanted: Callable[[pd.DataFrame], NDArray[np.bool_]]) -> pd.DataFrame:
        """Return the rows of which `wanted` holds, in their order."""
        found = Gathered()
        for rows in self.portions():
            found.add(rows, wanted(rows))
        return found.whole()

    def whole(self) -> pd.DataFrame:
        """Return all rows."""
        return joined([*self.portions()])


@dataclass(frozen=True, slots=True)
class _Kept(LargeTable):
    """Some rows of a table, which are looked for where they are asked for."""

    table: LargeTable
    wanted: Callable[[pd.DataFrame], NDArray[np.bool_]]

    def groups(self) -> Sequence[Mapping[int, int]]:
        """Return how many rows each rank has at most in each portion."""
        return self.table.groups()

    def of_ranks(self, ranks: Collection[int], span: Span | None = None) -> pd.DataFrame:
        """See `LargeTable.of_ranks`."""
        own = self.table.only(ranks)
        return own.where(
            lambda rows: self.wanted(rows) & span.holds(rows) if span else self.wanted(rows)
        )


def in_portions(function: Callable[..., T], names: Collection[str]) -> Callable[..., T]:
    """Return `function` that may also be given frames, or some by tool, for parameters `names`."""
    if not names:
        return function

    def large(given: Any) -> Any:
        if isinstance(given, dict):
            return {tool: large(rows) for tool, rows in given.items()}
        return LargeTable.of(given) if isinstance(given, pd.DataFrame) else given

    @wraps(function)
    def run(*args: Any, **inputs: Any) -> T:
        inputs |= dict(zip(inspect.signature(function).parameters, args, strict=False))
        return function(**inputs | {name: large(inputs[name]) for name in names if name in inputs})

    return run


def batches(*tables: LargeTable) -> Iterator[list[pd.DataFrame]]:
    """Yield the rows of whole ranks of all `tables`, of `ranks_in_batches`."""
    for ranks in ranks_in_batches([table.groups() for table in tables]):
        yield [table.of_ranks(ranks) for table in tables]


def parts(
    tables: Mapping[str, LargeTable], ranks_in: RankSpan = EVERY_RANK
) -> Iterator[dict[str, pd.DataFrame]]:
    """Yield the rows of whole ranks of `tables`, by the table's name, of `ranks_in_batches`.

    A rank with many operators comes in parts, where it can be cut, see `closed_steps`, if all
    `tables` have a column ``op``.
    """
    for ranks in ranks_in_batches([table.groups() for table in tables.values()], ranks_in):
        for span in spans_of(tables, ranks):
            yield {name: table.of_ranks(ranks, span) for name, table in tables.items()}


def spans_of(
    tables: Mapping[str, LargeTable], ranks: Collection[int]
) -> Sequence[Span] | tuple[None]:
    """Return the spans that some ranks of `tables` come in; None stands for all at once."""
    operators = sum(group.get(rank, 0) for group in _groups(tables) for rank in ranks)
    if len(ranks) > 1 or not may_cut(operators):
        return (None,)
    if not all("op" in table.names() for table in tables.values()):
        return (None,)

    def numbers(table: LargeTable, names: Sequence[str]) -> Iterator[list[NDArray[np.int64]]]:
        for rows in table.narrowed(["rank", *names]).only(ranks).portions():
            yield [rows[name].to_numpy(np.int64) for name in names]

    return spans({name: partial(numbers, table) for name, table in tables.items()}) or (None,)


def _groups(tables: Mapping[str, LargeTable]) -> Sequence[Mapping[int, int]]:
    return tables[OPS].groups() if OPS in tables else ()


def portions_of_batches(table: LargeTable) -> Iterator[Iterator[pd.DataFrame]]:
    """Yield for each batch of whole ranks the portions in which its rows come.

    For what keeps little of each row: of a rank with many, there is no room for all of them.
    """
    for ranks in ranks_in_batches([table.groups()]):
        yield table.only(ranks).portions()


def ranks_in_batches(
    groups: Iterable[Sequence[Mapping[int, int]]], ranks_in: RankSpan = EVERY_RANK
) -> Iterator[set[int]]:
    """Yield batches of ranks, at least one: an empty one where none has rows.

    `groups` has the rows of each rank in the parts of each table; a batch has about
    `_ROWS_OF_BATCH` of all.
    """
    rows: Counter[int] = Counter()
    for of_table in groups:
        for group in of_table:
            rows.update({rank: count for rank, count in group.items() if rank in ranks_in})
    batch: set[int] = set()
    count = 0
    for rank, own in rows.items():
        if batch and count + own > _ROWS_OF_BATCH:
            yield batch
            batch, count = set(), 0
        batch.add(rank)
        count += own
    yield batch


class Gathered:
    """Chosen rows of a table, as its portions come; one column at a time is there twice."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {}

    def add(self, rows: pd.DataFrame, chosen: NDArray[np.bool_] | slice, **other: Any) -> None:
        """Keep the `chosen` rows; `other` are columns instead of those of the same name."""
        for name in rows:
            values = other.get(str(name), rows[name].array)
            self._parts.setdefault(str(name), []).append(values[chosen])

    def whole(self) -> pd.DataFrame:
        """Return all rows that were kept, once; texts may have other categories in each portion."""
        found = {name: _concatenated(self._parts.pop(name)) for name in [*self._parts]}
        pa.default_memory_pool().release_unused()
        return pd.DataFrame(found, copy=False)


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all `parts`, whose texts may have other categories in each."""
    if len(parts) == 1:
        return parts[0].reset_index(drop=True)
    found = Gathered()
    for part in parts:
        found.add(part, slice(None))
    return found.whole()


def _concatenated(parts: list[Any]) -> Any:
    """Return one column; numbers that are all equal take no memory."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0].dtype, pd.CategoricalDtype):
        return union_categoricals(parts)
    values = np.concatenate(parts)
    is_equal = len(values) and (values == values[0]).all()
    return np.broadcast_to(values[0], len(values)) if is_equal else values


def portions(
    file: pq.ParquetFile, names: Sequence[str], groups: Sequence[int]
) -> Iterator[pd.DataFrame]:
    """Yield these columns of groups of rows, about `_ROWS_AT_ONCE` of them at a time.

    Without any group it is one portion, without rows.
    """
    for run in [*_runs(file, groups)] or [[]]:
        yield file.read_row_groups(run, list(names)).to_pandas()


def read(
    file: pq.ParquetFile,
    groups: Sequence[int],
    names: Sequence[str],
    narrow: Collection[str] = (),
) -> pd.DataFrame:
    """Return these columns of groups of rows, integers as int32 in `narrow` ones that allow it.

    Numbers that are all equal, as those of the only rank are, take no memory.
    """
    size = sum(file.metadata.row_group(group).num_rows for group in groups)
    ranges = _ranges(file, groups)
    equal = {name: low for name, (low, high) in ranges.items() if low == high}
    columns: dict[str, _Numbers | _Texts] = {}
    for name in names:
        kind = file.schema_arrow.field(name).type
        if name in narrow and name in ranges and max(map(abs, ranges[name])) <= _NARROW:
            kind = pa.int32()
        is_text = pa.types.is_dictionary(kind)
        columns[name] = _Texts(size) if is_text else _Numbers(size, kind, equal.get(name))
    wanted = [name for name in names if name not in equal]
    at = 0
    for run in _runs(file, groups):
        part = file.read_row_groups(run, wanted)
        for name in wanted:
            columns[name].put(at, part[name])
        at += len(part)
    return pd.DataFrame({name: columns.pop(name).whole() for name in names}, copy=False)


class _Numbers:
    """A column of numbers."""

    def __init__(self, size: int, kind: pa.DataType, equal: int | None) -> None:
        dtype = kind.to_pandas_dtype()
        self._values: NDArray[Any] = (
            np.empty(size, dtype) if equal is None else np.broadcast_to(dtype(equal), size)
        )

    def put(self, at: int, values: pa.ChunkedArray) -> None:
        """Fill in the values of the rows from `at` on."""
        for chunk in values.chunks:
            self._values[at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            at += len(chunk)

    def whole(self) -> NDArray[Any]:
        """Return all values."""
        return self._values


class _Texts:
    """A column of texts, each group of which has a dictionary of its own."""

    def __init__(self, size: int) -> None:
        self._codes: NDArray[Any] = np.empty(size, np.int16)
        self._known: dict[str, int] = {}

    def put(self, at: int, values: pa.ChunkedArray) -> None:
        """Fill in the values of the rows from `at` on."""
        for chunk in values.chunks:
            texts = chunk.dictionary.to_pylist()
            codes = [self._known.setdefault(text, len(self._known)) for text in texts]
            if len(self._known) > _FEW_TEXTS and self._codes.dtype == np.int16:
                self._codes = self._codes.astype(np.int32)
            # A text that is missing has the code -1, the last.
            rows = chunk.indices.fill_null(-1).to_numpy()
            self._codes[at : at + len(chunk)] = np.array([*codes, -1])[rows]
            at += len(chunk)

    def whole(self) -> "pd.Series[str]":
        """Return all values as a Categorical, as Arrow makes it."""
        codes = pa.array(self._codes, mask=self._codes < 0)
        texts = pa.array([*self._known], pa.string())
        made: pd.Series[str] = pa.DictionaryArray.from_arrays(codes, texts).to_pandas()
        return made


def _ranges(file: pq.ParquetFile, groups: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return the least and the largest value of each column of integers that are all there."""
    found: dict[str, tuple[int, int]] = {}
    for at, field in enumerate(file.schema_arrow):
        known = [file.metadata.row_group(group).column(at).statistics for group in groups]
        if pa.types.is_integer(field.type) and all(one and one.has_min_max for one in known):
            values = [value for one in known for value in (one.min, one.max)]
            if values and not any(one.null_count for one in known):
                found[field.name] = min(values), max(values)
    return found


def _runs(file: pq.ParquetFile, groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups that lie one behind the other, of about `_ROWS_AT_ONCE` rows together."""
    run: list[int] = []
    rows = 0
    for group in groups:
        run.append(group)
        rows += file.metadata.row_group(group).num_rows
        if rows >= _ROWS_AT_ONCE:
            yield run
            run, rows = [], 0
    if run:
        yield run


def tidy(rows: int) -> None:
    """Give memory back that was worked with, if it was that of many rows: else it takes longer.

    Of what is smaller than `malloc` gives back by itself, much may lie between what is in use.
    """
    if rows > _ROWS_AT_ONCE:
        pa.default_memory_pool().release_unused()
