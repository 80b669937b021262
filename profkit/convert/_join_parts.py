"""Joins the tables of several raw files into one set, in which no two rows share an id.

Ids count anew in each rank and repeat, and in each file. So files that were captured or imported
as one rank are taken as parts of one recording, whose ids count on from file to file; where each is
a whole, as snapshots are, they are repeats. Files of different ranks may hold the same ones, as
reports around a launcher do: then the later file has the next free ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert import STEPS
from profkit.convert._parquet import write
from profkit.convert._part_tables import PartTable, part_column, part_tables, row_groups, spans
from profkit.convert.base import Raw
from profkit.tables import schema

_ROWS = {
    **dict.fromkeys(("op", "parent", "forward"), "cpu_ops"),
    **dict.fromkeys(("call", "caller"), "python_calls"),
    "collective": "collectives",
    "kernel": "measured_kernels",
}
"""Columns that hold numbers of rows, and the table whose rows they are."""

_GROUP_ROWS = 1 << 16
"""Rows that are written together, unless those of one rank are more."""

_CORRELATIONS = ("correlation", "awaited_correlation")
_COUNTED_ON = "Steps have numbers of an earlier file of this rank: they count on from there."
_LEAST = dict.fromkeys(_CORRELATIONS, 1)
"""The least id that is one, where that is not 0."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The conversion of one raw file: a folder with the tables that have rows."""

    raw: Raw
    folder: Path | None
    """None if the file could not be read."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each table that other rows refer to."""
    found_ranks: frozenset[int] = frozenset()
    """Known ranks of all rows."""
    notes: tuple[str, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Number added to the ids in each column when the parts are joined."""
    ranks: Mapping[int, int] = field(default_factory=dict)
    """New number of each rank in it; empty if they stay."""
    repeat: int = -1
    """New number of its repeat; -1 if it stays."""

    @cached_property
    def tables(self) -> dict[str, PartTable]:
        """Where its tables are, by name."""
        return part_tables(self.folder)

    def with_note(self, text: str, **changes: Any) -> "Part":
        """Return it with some fields changed, and a note on that."""
        return replace(self, notes=(*self.notes, text), **changes)


def file_label(path: Path) -> str:
    """Return the name of a capture's file in notes."""
    return f"{path.parent.name}/{path.name}"


def referenced_rows(rows: Mapping[str, int]) -> dict[str, int]:
    """Return those of the tables that other rows refer to, with their number of rows."""
    return {name: rows[name] for name in rows if name in _ROWS.values()}


def with_unique_ids(parts: Sequence[Part], *, whole: bool = False) -> list[Part]:
    """Return the parts with the changes after which no id means two rows.

    `whole`: several files of one rank are repeats of each other.
    """
    read = [part for part in parts if part.folder]
    groups: dict[tuple[int, int], list[Part]] = defaultdict(list)
    for part in _repeats(read) if whole else read:
        repeat = part.raw.repeat if part.repeat < 0 else part.repeat
        groups[repeat, part.raw.rank].append(part)
    file_of_rank: dict[int, dict[int, str]] = defaultdict(dict)
    changed: dict[Path, Part] = {}
    for (repeat, _), group in groups.items():
        # One file alone cannot clash with another, and is not looked into.
        own = _with_free_ranks(group, file_of_rank[repeat]) if len(groups) > 1 else group
        changed |= {part.raw.path: part for part in _with_offsets(own)}
    return [changed.get(part.raw.path, part) for part in parts]


def _repeats(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, the later ones of a rank as additional repeats."""
    last = max((part.raw.repeat for part in parts), default=0)
    first: dict[tuple[int, int], str] = {}
    more: Counter[int] = Counter()
    for part in parts:
        rank, here = part.raw.rank, file_label(part.raw.path)
        earlier = first.setdefault((part.raw.repeat, rank), here)
        if earlier == here:
            yield part
            continue
        more[rank] += 1
        note = f"{earlier} is of rank {rank} too: this file counts as repeat {last + more[rank]}."
        yield part.with_note(note, repeat=last + more[rank])


def _with_free_ranks(group: Sequence[Part], file_of_rank: dict[int, str]) -> Sequence[Part]:
    """Give the next free ranks to a group that has a rank of another; add to `file_of_rank`.

    All their ranks are changed alike, so that what stood in order of devices still does.
    """
    ranks_by_file = {part.raw.path: part.found_ranks for part in group}
    every = sorted(set().union(*ranks_by_file.values()))
    taken = [rank for rank in every if rank in file_of_rank]
    ranks = dict(zip(every, (rank for rank in count() if rank not in file_of_rank), strict=False))
    for path, own in ranks_by_file.items():
        for rank in own:
            file_of_rank.setdefault(ranks[rank] if taken else rank, file_label(path))
    if not taken:
        return group
    note = (
        f"{_ranks_in_words(taken)} also in {file_of_rank[taken[0]]}: here {_listed(every)} became"
        f" {_listed(ranks.values())}. Import this file alone to keep its own."
    )
    return [part.with_note(note, ranks=ranks) for part in group]


def _ranks_in_words(ranks: Sequence[int]) -> str:
    return f"Rank {ranks[0]} is" if len(ranks) == 1 else f"Ranks {_listed(ranks)} are"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _with_offsets(group: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts of one rank with the offsets of their ids."""
    if len(group) == 1:
        yield from group
        return
    rows: Counter[str] = Counter()
    launched = _Seen(columns=_CORRELATIONS, tables=tuple(schema.TABLES))
    # Steps with consecutive numbers follow one another: the time between two files is of no step.
    steps = _Seen(columns=("step",), tables=(STEPS,), between=1)
    for part in group:
        offsets = {column: rows[table] for column, table in _ROWS.items()}
        rows.update(part.rows)
        offsets |= dict.fromkeys(_CORRELATIONS, launched.offset(part))
        offsets["step"] = steps.offset(part)
        changed = replace(part, offsets=offsets)
        yield changed.with_note(_COUNTED_ON) if offsets["step"] else changed


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """Ids of one kind that earlier files hold."""

    columns: tuple[str, ...]
    tables: tuple[str, ...]
    between: int = 0
    """Ids that stay free before those of a part that were moved."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """The least and the largest in each file."""

    def offset(self, part: Part) -> int:
        """Return the offset that keeps the ids of a part apart from those of the parts before."""
        found = list(self._found(part))
        if not found:
            return 0
        least, most = min(span[0] for span in found), max(span[1] for span in found)
        clash = any(least <= last and first <= most for first, last in self.spans)
        free = max((last for _, last in self.spans), default=0) + 1 + self.between
        moved = free - least if clash else 0
        self.spans.append((least + moved, most + moved))
        return moved

    def _found(self, part: Part) -> Iterator[tuple[int, int]]:
        for name, table in part.tables.items():
            if name in self.tables:
                for key in set(self.columns) & set(schema.TABLES[name].names):
                    yield from _known(table, key)


def _known(table: PartTable, name: str) -> list[tuple[int, int]]:
    """Return the least and the largest id in groups of rows; where some have none, of all rows."""
    known, none_below = spans(table, name), _LEAST.get(name, 0)
    if all(least >= none_below for least, _ in known):
        return known
    values = part_column(table, name)
    values = values[values >= none_below]
    return [(int(values.min()), int(values.max()))] if len(values) else []


def join(path: Path, name: str, parts: Sequence[Part]) -> None:
    """Make one file of table `name` from those of all parts."""
    own = parts[0].tables.get(name) if len(parts) == 1 else None
    if own and own.is_parquet:
        # Writing once more would take as long as half of the reading.
        own.path.replace(path)
    else:
        write(path, name, _joined(name, parts))


def _joined(name: str, parts: Sequence[Part]) -> Iterator[pa.Table]:
    """Yield the rows of all parts, a row group at a time; small ones of several ranks are one.

    To read a thousand groups of some rows takes five times as long as the same rows in few.
    """
    small: list[pa.Table] = []
    for part in parts:
        table = part.tables.get(name)
        for rows in row_groups(table) if table else ():
            if small and sum(map(len, small)) + len(rows) > _GROUP_ROWS:
                yield _together(small)
                small = []
            small.append(schema.declared(name, _with_changes(rows, part)))
    if small:
        yield _together(small)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _with_changes(rows: pa.Table, part: Part) -> pa.Table:
    for column, offset in part.offsets.items():
        if offset and column in rows.column_names:
            values = schema.of_numbers(rows[column])
            known = values >= _LEAST.get(column, 0)
            rows = _replaced(rows, column, np.where(known, values + offset, values))
    if part.repeat >= 0:
        rows = _replaced(rows, "repeat", np.full(len(rows), part.repeat))
    if part.ranks:
        old, new = map(np.array, (list(part.ranks), list(part.ranks.values())))
        rank = schema.of_numbers(rows["rank"])
        at = np.searchsorted(old, rank).clip(max=len(old) - 1)
        rows = _replaced(rows, "rank", np.where(old[at] == rank, new[at], rank))
    return rows


def _replaced(rows: pa.Table, column: str, values: NDArray[Any]) -> pa.Table:
    at = rows.schema.get_field_index(column)
    kind = rows.schema.field(at)
    return rows.set_column(at, kind, schema.numbers(values, kind.type))
