"""Rows of CPU threads, nested window by window: operators, calls and memory.

Rows are numbered through the tables: operators, then calls, then allocations and frees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.values import Ints
from profkit.convert.linking.tree import LEAF, POINT, SPAN, Tree, nested
from profkit.convert.linking.windows import Rows, Windows, carried, threads_of

_READ = (("start", "end", "external", "name"), ("start", "end"), ("start",))
_KINDS = (SPAN, LEAF, POINT)
_CARRIED = ("start", "end", "kind", "row")

Row = NDArray[np.int32]


@dataclass(kw_only=True, slots=True)
class Nesting:
    """Which row encloses which."""

    op_rows: DiskColumn
    """Rows of the operators by thread, start, and from the outside in."""

    op_of_row: DiskColumn
    """Position in `op_rows` of each operator."""

    parent: DiskColumn
    """Operator around each row; -1 if there is none."""

    end: DiskColumn
    """End of each operator; see `Tree.end`."""

    self_ns: DiskColumn
    """Time of each operator that no row inside covers; see `Tree.self_ns`."""

    cut: int = 0
    """See `Tree`."""

    crossing: int = 0
    """Number of rows that outlive the row around them, without ranges that PyTorch marks itself.

    A hook behind the optimizer's step may end the step of training while that range is open.
    """


@dataclass(kw_only=True)
class _NestingBuilder:
    """Makes a `Nesting`, window by window."""

    first: Ints
    """Number of the first row of each table, and of the one after the last."""
    alone: NDArray[np.bool_]
    """Whether operators of each name are asynchronous."""
    marks: NDArray[np.bool_]
    """Whether each name is that of a range that PyTorch marks."""
    found: Nesting
    ordered: int = 0
    """Number of operators so far."""

    def link(self, rows: Rows, thread: int) -> None:
        """Nest the rows of one thread."""
        known: dict[str, Column] = {name: np.empty(0, dtype=np.int64) for name in _CARRIED}
        cuts = Windows(rows.cuts(thread))
        for begin, until in cuts:
            joined = self._joined(known, rows.read(thread, begin, until, _READ))
            alone, marks = joined.pop("alone"), joined.pop("marks")
            tree = nested(
                start=joined["start"],
                end=joined["end"],
                kind=joined["kind"].astype(np.int8),
                created=joined.pop("created"),
                asynchronous=alone,
            )
            sorted_ = {name: column[tree.order] for name, column in joined.items()}
            opens = ~alone[tree.order] & (sorted_["kind"] != POINT)
            opens &= sorted_["end"] > sorted_["start"]
            left = carried(sorted_["start"], sorted_["end"], opens, until)
            if left is None:
                cuts.grow()
                continue
            self._note(tree, joined, len(known["row"]))
            self.found.crossing += int((tree.crossing & ~marks).sum())
            known = {name: column[left] for name, column in sorted_.items()}

    def _joined(
        self, known: dict[str, Column], found: Sequence[dict[str, Column]]
    ) -> dict[str, Column]:
        """Return the columns of rows that were carried in, and those of all tables after them."""
        ops, calls, memory = found
        counts = [len(rows["row"]) for rows in found]
        before, others = len(known["row"]), counts[1] + counts[2]
        by_table = [rows["row"] + base for rows, base in zip(found, self.first, strict=False)]
        starts = [rows["start"] for rows in found]
        return {
            "start": np.concatenate([known["start"], *starts]),
            "end": np.concatenate([known["end"], ops["end"], calls["end"], memory["start"]]),
            "kind": np.concatenate([known["kind"], np.repeat(_KINDS, counts)]),
            "row": np.concatenate([known["row"], *by_table]),
            # Those that were carried in began earlier than all others: this orders nothing.
            "created": np.concatenate(
                [np.arange(before), ops["external"], np.zeros(others, dtype=np.int64)]
            ),
            **{
                name: np.concatenate([np.zeros(before, bool), of_ops, np.zeros(others, bool)])
                for name, of_ops in (
                    ("alone", self.alone[ops["name"]]),
                    ("marks", self.marks[ops["name"]]),
                )
            },
        }

    def _note(self, tree: Tree, joined: dict[str, Column], known: int) -> None:
        """Store what one window says of its rows."""
        row, new, found = joined["row"], slice(known, None), self.found
        above = tree.parent[new]
        found.parent.fill(row[new], np.where(above >= 0, row[above], -1))
        is_op = row < self.first[1]
        own = np.flatnonzero(is_op[new]) + known
        found.end.fill(row[own], tree.end[own])
        found.self_ns.fill(row[own], tree.self_ns[own])
        if known:
            self._cover(tree, joined, known)
        order = row[tree.order[(tree.order >= known) & is_op[tree.order]]]
        numbers = np.arange(self.ordered, self.ordered + len(order))
        found.op_rows.fill(numbers, order)
        found.op_of_row.fill(order, numbers)
        self.ordered += len(order)
        found.cut += tree.cut

    def _cover(self, tree: Tree, joined: dict[str, Column], known: int) -> None:
        """Take from the time of rows that were carried in what new rows cover.

        Each of them encloses the next, whose time was taken when that one was new.
        """
        span = (joined["end"] - joined["start"])[:known]
        covered = span - tree.self_ns[:known]
        covered[:-1] -= span[1:]
        row = joined["row"][:known]
        own = row < self.first[1]
        left = self.found.self_ns()[row[own]] - covered[own]
        self.found.self_ns.fill(row[own], left)


def nesting(
    ops: Columns,
    calls: Columns,
    memory: Columns,
    *,
    asynchronous: NDArray[np.bool_],
    marks: NDArray[np.bool_],
) -> Nesting:
    """Nest all rows.

    By name, operators are `asynchronous`, see `Tree`, or `marks` that PyTorch makes itself.
    """
    tables, spill = (ops, calls, memory), ops.spill
    counts = [table.count for table in tables]
    found = Nesting(
        op_rows=DiskColumn(spill, ops.count),
        op_of_row=DiskColumn(spill, ops.count),
        parent=DiskColumn(spill, sum(counts)),
        end=DiskColumn(spill, ops.count, np.int64),
        self_ns=DiskColumn(spill, ops.count, np.int64),
    )
    builder = _NestingBuilder(
        first=np.cumsum([0, *counts]), alone=asynchronous, marks=marks, found=found
    )
    rows = Rows(tables, threads_of(tables))
    for thread in rows.numbers():
        builder.link(rows, thread)
    return found
