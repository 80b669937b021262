"""Work on devices: the call and the operator that launched it, its step, and its kind."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.stored import Columns, Held, slices
from profkit.convert.columns.values import Ints
from profkit.convert.linking.coded import Coded
from profkit.convert.linking.gathered import COPY, KERNEL
from profkit.convert.linking.link import (
    at_or,
    copy_direction,
    launches_communication,
    names_communication,
    step_at,
)
from profkit.convert.linking.ordered import Ordered, first_with, ranges
from profkit.convert.linking.windows import threads_of

if TYPE_CHECKING:
    from profkit.convert.linking.linker import Linker

_KINDS = Text()
_COMPUTE, _COMMUNICATION, _COPY, _SET = _KINDS.codes(
    ["compute", "communication", "copy", "set"]
).tolist()


@dataclass(frozen=True, kw_only=True)
class Work:
    """The kernels, copies and sets of one trace in the order of the table `kernels`."""

    linker: "Linker"

    @cached_property
    def ordered(self) -> Ordered:
        """What was recorded of each, by start."""
        return Ordered(self.linker.gathered.columns("device_work"))

    @property
    def count(self) -> int:
        """Number of pieces of work."""
        return self.ordered.count

    def made(self, make: Callable[[slice], Column], dtype: DTypeLike = np.int32) -> Held:
        """Return the column that `make` makes of some pieces of work at a time."""
        return Held.of(self.linker.spill, self.count, map(make, slices(self.count)), dtype)

    @cached_property
    def call(self) -> Held:
        """Row of the launching call of each; -1 if unknown."""
        return launching_calls(self.linker, self.ordered)

    @cached_property
    def op(self) -> Held:
        """Index in `cpu_ops` of the operator that each belongs to; -1 if unknown."""
        linker = self.linker
        stated = first_with(linker.ops, "external", self.made(self._stated, np.int64))

        def of_rows(rows: slice) -> Column:
            op = self._launching_op(rows)
            return np.where(op >= 0, op, at_or(linker.op_of_row, stated()[rows]))

        return self.made(of_rows)

    def _launching_op(self, rows: slice) -> Column:
        """Return the index of the operator around the launching call."""
        return at_or(self.linker.call_op(), self.call()[rows])

    def _stated(self, rows: slice) -> Ints:
        """Return the external id of the operator, where the launching call knows of none."""
        part = self.ordered.chosen(rows)
        external, launched = part["external"], self._launching_op(rows) >= 0
        # Before PyTorch 2.1 the external id of device work was its correlation, not an operator's.
        return np.where(launched | (external == part["correlation"]), -1, external)

    @cached_property
    def op_row(self) -> Held:
        """Row of that operator."""
        return self.made(lambda rows: at_or(self.linker.op_rows, self.op()[rows]))

    @cached_property
    def step(self) -> Held:
        """Step of each launch; without one, the device-side step around the work."""
        linker = self.linker

        def of_rows(rows: slice) -> Column:
            call, op_row = self.call()[rows], self.op_row()[rows]
            around = step_at(self.ordered.chosen(rows)["start"], *linker.device_steps)
            by_op = at_or(linker.op_step(), op_row, around)
            return at_or(linker.call_step(), call, by_op)

        return self.made(of_rows)

    @cached_property
    def _kinds(self) -> Held:
        """Number of the kind of each."""
        names, ops = self.linker.gathered.names, self.linker.ops
        by_op, by_name = map(names.matching, (launches_communication, names_communication))

        def of_rows(rows: slice) -> Column:
            part = self.ordered.chosen(rows)
            # Row -1 has the name "".
            communication = by_op[ops.at("name", self.op_row()[rows], 0)] | by_name[part["name"]]
            communication |= part["message"] > 0
            kernel = np.where(communication, _COMMUNICATION, _COMPUTE)
            other = np.where(part["kind"] == COPY, _COPY, _SET)
            codes: Column = np.where(part["kind"] == KERNEL, kernel, other)
            return codes

        return self.made(of_rows)

    @cached_property
    def kind(self) -> Coded:
        """Kind of each: compute, communication, copy or set."""
        return Coded(_KINDS, self._kinds)

    @cached_property
    def communication(self) -> Ints:
        """Positions of the communication kernels."""
        found = zip(slices(self.count), self._kinds.parts(), strict=True)
        return np.concatenate(
            [rows.start + np.flatnonzero(kind == _COMMUNICATION) for rows, kind in found]
        )

    @cached_property
    def copy_kind(self) -> Coded:
        """Direction, from the arguments or from a name such as ``Memcpy HtoD (...)``."""
        gathered, directions = self.linker.gathered, Text()
        by_name = directions.codes(map(copy_direction, gathered.names.numbers))
        by_text = directions.codes(map(copy_direction, gathered.texts.numbers))

        def of_rows(rows: slice) -> Column:
            part = self.ordered.chosen(rows)
            text = by_text[part["what"]]
            codes = np.where(text > 0, text, by_name[part["name"]])
            return np.where(part["kind"] == COPY, codes, 0)

        return Coded(directions, self.made(of_rows))


def shared_correlations(calls: Columns) -> int:
    """Return how many correlation ids calls of more than one process have, as in merged traces."""
    if len(threads_of([calls]).pids) < 2:  # noqa: PLR2004 - of almost every trace
        return 0
    shared = 0
    for low, high in ranges(calls.each("correlation")):
        pairs = (np.stack([part["correlation"], part["pid"]]) for part in calls.parts())
        found = [each[:, (each[0] >= max(low, 1)) & (each[0] < high)] for each in pairs]
        ids = np.unique(np.concatenate(found, axis=1), axis=1)[0]
        shared += len(np.unique(ids[1:][ids[1:] == ids[:-1]]))
    return shared


def launching_calls(linker: "Linker", work: Ordered) -> Held:
    """Return the row of the call that launched each piece of `work`; -1 if unknown."""
    return first_with(linker.calls, "correlation", work.held("correlation"))
