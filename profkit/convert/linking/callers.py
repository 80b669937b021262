"""Calls of Python functions and modules, window by window: their callers, modules and stacks.

They are half of a trace with stacks. What is found is kept as a table again, in the order of
`python_calls`; of operators and of calls of the runtime only the paths around them are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.spill import Block
from profkit.convert.columns.values import Ints
from profkit.convert.linking.lookup import at_or, by_start
from profkit.convert.linking.python import Calls, nested
from profkit.convert.linking.windows import Rows, Windows, carried, threads_of
from profkit.tables.tree_paths import PathBuilder, Paths

_READ = ("start", "end", "name")
_CARRIED = ("start", "end", "name", "call", "path")
_KEPT = (*_READ, "pid", "tid", "caller", "path")
_NONE = Paths(**dict.fromkeys(("node", "above", "name"), np.empty(0, dtype=np.int64)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Callers:
    """All calls on all threads, linked."""

    calls: Columns
    """In the order of `python_calls`: start, end, pid, tid, name, caller and path."""
    stacks: Paths
    """Paths of all frames; its rows are the numbers `path` of `calls` and those of `sites`."""
    modules: Paths
    """The same of modules alone."""
    sites: tuple[DiskColumn, ...]
    """Path around each row of the other tables; -1 for none."""


@dataclass(frozen=True, kw_only=True)
class Linking:
    """Links the calls of one trace."""

    python: Columns
    """As they were recorded."""
    others: Sequence[Columns]
    """Tables whose surroundings are wanted."""
    frames: Ints
    """Number of the frame that each name stands for."""
    is_module: NDArray[np.bool_]
    """Whether each name is that of a module."""
    paths: PathBuilder
    """Paths so far: of all frames, and of modules."""

    def callers(self) -> Callers:
        """Link all calls."""
        spill = self.python.spill
        blocks = [spill.keep({name: np.empty(0, np.int64) for name in _KEPT})]
        if not self.python.count:  # as of most small traces
            sites = tuple(DiskColumn.alike(spill, table.count, -1) for table in self.others)
            return Callers(calls=Columns(spill, blocks), stacks=_NONE, modules=_NONE, sites=sites)
        sites = tuple(DiskColumn(spill, table.count) for table in self.others)
        self._link_all(blocks, sites)
        stacks, modules = self.paths.whole()
        return Callers(calls=Columns(spill, blocks), stacks=stacks, modules=modules, sites=sites)

    def _link_all(self, blocks: list[Block], sites: Sequence[DiskColumn]) -> None:
        """Link the calls of all threads, and append them to `blocks`."""
        tables = [self.python, *self.others]
        threads = threads_of(tables)
        rows = Rows(tables, threads)
        for thread in rows.numbers():
            self._link(rows, thread, threads.ids(thread), blocks, sites)

    def _link(
        self,
        rows: Rows,
        thread: int,
        ids: dict[str, int],
        blocks: list[Block],
        sites: Sequence[DiskColumn],
    ) -> None:
        """Link the calls of one thread, whose ids are `ids`, and append them to `blocks`."""
        base = sum(block.rows for block in blocks)
        known = {name: np.empty(0, dtype=np.int64) for name in _CARRIED}
        cuts = Windows(rows.cuts(thread))
        for begin, until in cuts:
            names = [_READ, *(("start",) for _ in self.others)]
            found, *asking = rows.read(thread, begin, until, names)
            order = by_start(found["start"], -found["end"])
            own = {name: found.pop(name)[order] for name in _READ}
            own |= {
                name: np.broadcast_to(np.int64(value), len(order)) for name, value in ids.items()
            }
            calls = nested(*(np.concatenate([known[name], own[name]]) for name in ("start", "end")))
            left = carried(calls.start, calls.end, np.ones(len(calls.start), np.bool_), until)
            if left is None:
                cuts.grow()
                continue
            portion = self._portion(known, own, calls, base)
            blocks.append(self.python.spill.keep(_kept(portion, own, calls, len(known["call"]))))
            _fill(sites, asking, calls, portion)
            base += len(own["start"])
            known = {name: portion[name][left] for name in _CARRIED}

    def _portion(
        self, known: dict[str, Column], own: dict[str, Column], calls: Calls, base: int
    ) -> dict[str, Column]:
        """Return the columns of rows that were carried in and those after them."""
        name = np.concatenate([known["name"], own["name"]])
        path = self.paths.add(
            calls.caller, calls.depth, self.frames[name], self.is_module[name], known["path"]
        )
        return {
            "start": calls.start,
            "end": np.concatenate([known["end"], own["end"]]),
            "name": name,
            "call": np.concatenate([known["call"], np.arange(base, base + len(own["start"]))]),
            "path": path,
        }


def _kept(
    portion: dict[str, Column], own: dict[str, Column], calls: Calls, known: int
) -> dict[str, Column]:
    """Return the columns of the new rows of a portion."""
    caller = calls.caller[known:]
    return own | {
        "caller": np.where(caller >= 0, portion["call"][caller], -1),
        "path": portion["path"][known:].astype(np.int32),
    }


def _fill(
    sites: Sequence[DiskColumn],
    asking: Sequence[dict[str, Column]],
    calls: Calls,
    portion: dict[str, Column],
) -> None:
    """Note what is around the rows of other tables."""
    for site, rows in zip(sites, asking, strict=True):
        site.fill(rows["row"], at_or(portion["path"], calls.at(rows["start"])))
