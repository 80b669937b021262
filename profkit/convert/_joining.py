"""What raw files became, made into one set of tables: no two rows share what tells them apart.

Ids count anew in each rank and repeat, and in each file. So files that were captured or imported
as one rank are taken as parts of one recording, whose ids count on from file to file; where each is
a whole, as snapshots are, they are repeats. Files of different ranks may hold the same ones, as
reports around a launcher do: then the later file has the next free ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profkit.convert import STEPS
from profkit.convert._writing import write
from profkit.convert.base import Raw
from profkit.tables import schema

_ROWS = {
    **dict.fromkeys(("op", "parent", "forward"), "cpu_ops"),
    **dict.fromkeys(("call", "caller"), "python_calls"),
    "collective": "collectives",
    "kernel": "measured_kernels",
}
"""Columns that hold numbers of rows, and the table whose rows they are."""

_CORRELATIONS = ("correlation", "awaited_correlation")
_COUNTED_ON = "Steps have numbers of an earlier file of this rank: they count on from there."
_LEAST = dict.fromkeys(_CORRELATIONS, 1)
"""The least id that is one, where that is not 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What one raw file became: a folder with one Parquet file per table."""

    raw: Raw
    folder: Path | None
    """None if the file could not be read."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each table that other rows refer to."""
    notes: tuple[str, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)
    """What is added to the ids in each column when the parts are joined."""
    ranks: Mapping[int, int] = field(default_factory=dict)
    """What the ranks in it become; empty if they stay."""
    repeat: int = -1
    """What its repeat becomes; -1 if it stays."""

    def with_note(self, text: str, **changes: Any) -> "Part":
        """Return it with some fields changed, and a note on that."""
        return replace(self, notes=(*self.notes, text), **changes)


def shown(path: Path) -> str:
    """Return what notes call a file of a capture."""
    return f"{path.parent.name}/{path.name}"


def numbered(rows: Mapping[str, int]) -> dict[str, int]:
    """Return those of the tables that other rows refer to, with their number of rows."""
    return {name: rows[name] for name in rows if name in _ROWS.values()}


def apart(parts: Sequence[Part], *, whole: bool = False) -> list[Part]:
    """Return the parts with what has to be changed so that no id means two rows.

    `whole`: several files of one rank are repeats of each other.
    """
    read = [part for part in parts if part.folder]
    groups: dict[tuple[int, int], list[Part]] = defaultdict(list)
    for part in _repeats(read) if whole else read:
        repeat = part.raw.repeat if part.repeat < 0 else part.repeat
        groups[repeat, part.raw.rank].append(part)
    holders: dict[int, dict[int, str]] = defaultdict(dict)
    changed: dict[Path, Part] = {}
    for (repeat, _), group in groups.items():
        # One file alone has nothing to be told apart from, and is not looked into.
        own = _ranked(group, holders[repeat]) if len(groups) > 1 else group
        changed |= {part.raw.path: part for part in _counted_on(own)}
    return [changed.get(part.raw.path, part) for part in parts]


def _repeats(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, the later ones of a rank as repeats that nobody captured."""
    last = max((part.raw.repeat for part in parts), default=0)
    first: dict[tuple[int, int], str] = {}
    more: Counter[int] = Counter()
    for part in parts:
        rank, here = part.raw.rank, shown(part.raw.path)
        earlier = first.setdefault((part.raw.repeat, rank), here)
        if earlier == here:
            yield part
            continue
        more[rank] += 1
        note = f"{earlier} is of rank {rank} too: this file counts as repeat {last + more[rank]}."
        yield part.with_note(note, repeat=last + more[rank])


def _ranked(group: Sequence[Part], holders: dict[int, str]) -> Sequence[Part]:
    """Give the next free ranks to files that hold one of somebody else's; add to `holders`.

    All their ranks are changed alike, so that what stood in order of devices still does.
    """
    held = {part.raw.path: _ranks(part) for part in group}
    every = sorted(set().union(*held.values()))
    taken = [rank for rank in every if rank in holders]
    ranks = dict(zip(every, (rank for rank in count() if rank not in holders), strict=False))
    for path, own in held.items():
        for rank in own:
            holders.setdefault(ranks[rank] if taken else rank, shown(path))
    if not taken:
        return group
    note = (
        f"{_ranks_in_words(taken)} also in {holders[taken[0]]}: here {_listed(every)} became"
        f" {_listed(ranks.values())}. Import this file alone to keep its own."
    )
    return [part.with_note(note, ranks=ranks) for part in group]


def _ranks_in_words(ranks: Sequence[int]) -> str:
    return f"Rank {ranks[0]} is" if len(ranks) == 1 else f"Ranks {_listed(ranks)} are"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _ranks(part: Part) -> set[int]:
    """Return the known ranks of all rows; where statistics tell, nothing is read."""
    found: set[int] = set()
    for path in _files(part):
        with pq.ParquetFile(path) as file:
            spans = _spans(file, "rank")
            if any(least != most for least, most in spans):
                found |= set(np.unique(file.read(["rank"])["rank"].to_numpy()).tolist())
            else:
                found |= {least for least, _ in spans}
    return {rank for rank in found if rank >= 0}


def _spans(file: pq.ParquetFile, column: str) -> list[tuple[int, int]]:
    """Return the least and the largest number in each group of rows, from statistics."""
    at = file.schema_arrow.get_field_index(column)
    groups = (file.metadata.row_group(each) for each in range(file.num_row_groups))
    told = [group.column(at).statistics for group in groups]
    return [(each.min, each.max) for each in told if each and each.has_min_max]


def _counted_on(group: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts of one rank with the offsets of their ids."""
    if len(group) == 1:
        yield from group
        return
    rows: Counter[str] = Counter()
    launched = _Seen(columns=_CORRELATIONS, tables=tuple(schema.TABLES))
    steps = _Seen(columns=("step",), tables=(STEPS,))
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
    spans: list[tuple[int, int]] = field(default_factory=list)
    """The least and the largest in each file."""

    def offset(self, part: Part) -> int:
        """Return what keeps the ids of a part from meaning those of the parts before."""
        found = list(self._found(part))
        if not found:
            return 0
        least, most = min(each[0] for each in found), max(each[1] for each in found)
        clash = any(least <= last and first <= most for first, last in self.spans)
        moved = max(last for _, last in self.spans) + 1 - least if clash else 0
        self.spans.append((least + moved, most + moved))
        return moved

    def _found(self, part: Part) -> Iterator[tuple[int, int]]:
        for path in _files(part):
            if path.stem in self.tables:
                with pq.ParquetFile(path) as file:
                    for column in set(self.columns) & set(file.schema_arrow.names):
                        yield from _known(file, column)


def _known(file: pq.ParquetFile, column: str) -> list[tuple[int, int]]:
    """Return the least and the largest id in groups of rows; where some have none, of all rows."""
    spans, none_below = _spans(file, column), _LEAST.get(column, 0)
    if all(least >= none_below for least, _ in spans):
        return spans
    values = file.read([column])[column].to_numpy()
    values = values[values >= none_below]
    return [(int(values.min()), int(values.max()))] if len(values) else []


def _files(part: Part) -> list[Path]:
    return sorted(part.folder.glob("*.parquet")) if part.folder else []


def join(path: Path, name: str, parts: Sequence[Part]) -> None:
    """Make one file of table `name` from those of all parts."""
    if len(parts) == 1 and parts[0].folder:
        # Writing once more would take as long as half of the reading.
        (parts[0].folder / f"{name}.parquet").replace(path)
    else:
        write(path, name, _joined(name, parts))


def _joined(name: str, parts: Sequence[Part]) -> Iterator[pa.Table]:
    """Yield the rows of all parts, a row group at a time."""
    for part in parts:
        if part.folder is None:
            continue
        with pq.ParquetFile(part.folder / f"{name}.parquet") as file:
            for group in range(file.num_row_groups):
                yield _moved(file.read_row_group(group), part)


def _moved(rows: pa.Table, part: Part) -> pa.Table:
    for column, offset in part.offsets.items():
        if offset and column in rows.column_names:
            values = rows[column].to_numpy()
            known = values >= _LEAST.get(column, 0)
            rows = _replaced(rows, column, np.where(known, values + offset, values))
    if part.repeat >= 0:
        rows = _replaced(rows, "repeat", np.full(len(rows), part.repeat))
    if part.ranks:
        old, new = (np.array(each) for each in (list(part.ranks), list(part.ranks.values())))
        rank = rows["rank"].to_numpy()
        at = np.searchsorted(old, rank).clip(max=len(old) - 1)
        rows = _replaced(rows, "rank", np.where(old[at] == rank, new[at], rank))
    return rows


def _replaced(rows: pa.Table, column: str, values: NDArray[Any]) -> pa.Table:
    at = rows.schema.get_field_index(column)
    kind = rows.schema.field(at)
    return rows.set_column(at, kind, schema.numbers(values, kind.type))
