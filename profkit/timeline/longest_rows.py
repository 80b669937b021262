"""The longest rows in some steps of a run, whose tables are read some rows at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.tables import schema

Ints = NDArray[np.int64]

PYTHON = "python_calls"
_OPERATORS = "cpu_ops"
_ROWS_AT_ONCE = 1 << 18
"""Rows after which no further group of rows is read at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsOfRun:
    """Rows of one repeat, in some of the steps."""

    files: Mapping[str, Path]
    """The tables by name."""
    repeat: int = 0
    steps: tuple[int, ...] = ()
    """All rows if there are none."""

    def of_steps(self, steps: Sequence[int]) -> "RowsOfRun":
        """Return those in `steps`."""
        return replace(self, steps=tuple(steps))

    def whole(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return `columns` of all rows of a table."""
        return _frame(self.blocks(name, columns), name, columns)

    def known(self, name: str, column: str) -> set[int]:
        """Return the numbers in a column of a table."""
        numbers = (_ints(block, column) for block in self.blocks(name, [column]))
        return {number for own in numbers for number in np.unique(own).tolist()}

    def longest(
        self, columns: Mapping[str, Sequence[str]], count: int
    ) -> tuple[dict[str, pd.DataFrame], int]:
        """Return `columns` of the `count` longest rows of all tables, and the number of others.

        A row lasts at least as long as those inside it, so none is left without those around it.
        Of equals those of the first tables, and the first of each, are kept.
        """
        times = {name: _times(name) for name in self.files}
        spans = self._spans() if self.steps and PYTHON in self.files else {}
        every = (_lengths(block) for name in times for block in self._cut(name, times[name], spans))
        least, equals, rows = _least_of_longest(every, count)
        found = {}
        for name in self.files:
            wanted = list(dict.fromkeys((*columns[name], *times[name])))
            kept = []
            for block in self._cut(name, wanted, spans):
                lengths = _lengths(block)
                which = _longer(lengths, least, equals)
                equals -= int(np.count_nonzero(lengths[which] == least))
                kept.append(block.filter(pa.array(which)))
            found[name] = _frame(kept, name, wanted).rename(columns={"time_ns": "start_ns"})
        return found, max(rows - count, 0)

    def _spans(self) -> dict[int, tuple[int, int]]:
        """Return from when to when operators of each rank run in the steps."""
        found: dict[int, tuple[int, int]] = {}
        for block in self.blocks(_OPERATORS, ["rank", "start_ns", "end_ns"]):
            rows = block.to_pandas().groupby("rank")
            spans = rows.agg(first=("start_ns", "min"), last=("end_ns", "max"))
            for rank, first, last in spans.itertuples():
                before = found.get(rank, (first, last))
                found[rank] = min(first, before[0]), max(last, before[1])
        return found

    def _cut(
        self, name: str, columns: Sequence[str], spans: Mapping[int, tuple[int, int]]
    ) -> Iterator[pa.Table]:
        """Yield the rows; calls of Python that are open during the `spans`, cut to these."""
        if name != PYTHON or not self.steps:
            yield from self.blocks(name, columns)
            return
        # The last is that of a rank without operators in the steps.
        ranks, ends = list(spans), np.array([*spans.values(), (0, 0)], dtype=np.int64)
        for block in self.of_steps(()).blocks(name, list(dict.fromkeys((*columns, "rank")))):
            yield _open_during(block, ranks, ends)

    def blocks(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield `columns` of the rows, of whole groups of rows."""
        with pq.ParquetFile(self.files[name]) as file:
            names = list(dict.fromkeys((*columns, "repeat", "step")))
            for groups in _groups(file):
                block = file.read_row_groups(groups, names)
                mine = _ints(block, "repeat") == self.repeat
                if self.steps:
                    mine &= np.isin(_ints(block, "step"), self.steps)
                yield block.select(list(columns)).filter(pa.array(mine))


def _open_during(calls: pa.Table, ranks: Sequence[int], spans: Ints) -> pa.Table:
    """Return the calls that are open during the first and last time of their rank, cut to these."""
    at = pd.Index(ranks).get_indexer(pd.Index(_ints(calls, "rank")))
    first, last = spans[at].T
    start, end = _ints(calls, "start_ns"), _ints(calls, "end_ns")
    is_open = pa.array((at >= 0) & (start < last) & (end > first))
    cut = {"start_ns": np.maximum(start, first), "end_ns": np.minimum(end, last)}
    columns = [
        pa.chunked_array([cut[name]]) if name in cut else calls[name] for name in calls.column_names
    ]
    return pa.Table.from_arrays(columns, schema=calls.schema).filter(is_open)


def _groups(file: pq.ParquetFile) -> Iterator[list[int]]:
    """Yield numbers of groups of rows that are read at the same time."""
    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    before = np.cumsum([0, *rows]) // _ROWS_AT_ONCE
    for _, groups in groupby(range(len(rows)), key=lambda group: before[group]):
        yield list(groups)


def _times(name: str) -> tuple[str, ...]:
    known = schema.TABLES[name].names
    return tuple(time for time in ("time_ns", "start_ns", "end_ns") if time in known)


def _ints(block: pa.Table, column: str) -> Ints:
    return np.asarray(block[column], dtype=np.int64)


def _lengths(block: pa.Table) -> Ints:
    if "end_ns" not in block.column_names:
        return np.zeros(len(block), dtype=np.int64)
    return _ints(block, "end_ns") - _ints(block, "start_ns")


def _least_of_longest(lengths: Iterable[Ints], count: int) -> tuple[int, int, int]:
    """Return the least of the `count` largest, how many of them are equal to it, and of how many.

    Where there are fewer, all are among them.
    """
    longest, rows = np.zeros(0, dtype=np.int64), 0
    for own in lengths:
        rows += len(own)
        longest = np.concatenate([longest, own])
        if (others := len(longest) - count) > 0:
            longest = np.partition(longest, others - 1)[others:]
    least = int(longest.min(initial=np.iinfo(np.int64).max))
    return least, int(np.count_nonzero(longest == least)), rows


def _longer(lengths: Ints, least: int, equals: int) -> NDArray[np.bool_]:
    """Say which are longer than `least`, or among the first `equals` that are as long."""
    kept = lengths > least
    kept[np.flatnonzero(lengths == least)[:equals]] = True
    return kept


def _frame(blocks: Iterable[pa.Table], name: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows as a frame; each block has texts of its own, of which few may be left."""
    none = schema.empty(name).select(list(columns))
    rows = pa.concat_tables([none, *blocks], promote_options="permissive")
    made: Any = rows.unify_dictionaries().to_pandas(split_blocks=True, self_destruct=True)
    return made  # type: ignore[no-any-return]
