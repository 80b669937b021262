"""Work on devices: the call and the operator that launched it, its step, and its kind."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.on_disk import DiskColumn, slices
from profkit.convert.columns.text_column import TextColumn
from profkit.convert.columns.values import Ints
from profkit.convert.linking.gathered import COPY, KERNEL, Gathered
from profkit.convert.linking.launches import Launches
from profkit.convert.linking.lookup import at_or
from profkit.convert.linking.names import (
    copy_direction,
    launches_communication,
    names_communication,
)
from profkit.convert.linking.operators import Operators
from profkit.convert.linking.ordered import Ordered, first_with
from profkit.convert.linking.steps import Steps

_KINDS = Text()
_COMPUTE, _COMMUNICATION, _COPY, _SET = _KINDS.codes(
    ["compute", "communication", "copy", "set"]
).tolist()


@dataclass(frozen=True, kw_only=True)
class DeviceWork:
    """The kernels, copies and sets of one trace in the order of the table `kernels`."""

    gathered: Gathered
    operators: Operators
    launches: Launches
    steps: Steps

    @cached_property
    def ordered(self) -> Ordered:
        """What was recorded of each, by start."""
        return Ordered(self.gathered.columns("kernels"))

    @property
    def count(self) -> int:
        """Number of pieces of work."""
        return self.ordered.count

    def made(self, make: Callable[[slice], Column], dtype: DTypeLike = np.int32) -> DiskColumn:
        """Return the column that `make` makes of some pieces of work at a time."""
        return DiskColumn.of(self.gathered.spill, self.count, map(make, slices(self.count)), dtype)

    @cached_property
    def call(self) -> DiskColumn:
        """Row of the launching call of each; -1 if unknown."""
        return self.launches.of(self.ordered)

    @cached_property
    def op(self) -> DiskColumn:
        """Index in `cpu_ops` of the operator that each belongs to; -1 if unknown."""
        stated = first_with(self.operators.recorded, "external", self.made(self._stated, np.int64))

        def of_rows(rows: slice) -> Column:
            op = self._launching_op(rows)
            return np.where(op >= 0, op, at_or(self.operators.index, stated()[rows]))

        return self.made(of_rows)

    def _launching_op(self, rows: slice) -> Column:
        """Return the index of the operator around the launching call."""
        return at_or(self.launches.op(), self.call()[rows])

    def _stated(self, rows: slice) -> Ints:
        """Return the external id of the operator, where the launching call knows of none."""
        part = self.ordered.select(rows)
        external, launched = part["external"], self._launching_op(rows) >= 0
        # Before PyTorch 2.1 the external id of device work was its correlation, not an operator's.
        return np.where(launched | (external == part["correlation"]), -1, external)

    @cached_property
    def op_row(self) -> DiskColumn:
        """Row of that operator."""
        return self.made(lambda rows: at_or(self.operators.rows, self.op()[rows]))

    @cached_property
    def step(self) -> DiskColumn:
        """Step of each launch; without one, the device-side step around the work."""

        def of_rows(rows: slice) -> Column:
            call, op_row = self.call()[rows], self.op_row()[rows]
            around = self.steps.device.at(self.ordered.select(rows)["start"])
            by_op = at_or(self.operators.step(), op_row, around)
            return at_or(self.launches.step(), call, by_op)

        return self.made(of_rows)

    @cached_property
    def _kinds(self) -> DiskColumn:
        """Number of the kind of each."""
        names, ops = self.gathered.names, self.operators.recorded
        by_op, by_name = map(names.matching, (launches_communication, names_communication))

        def of_rows(rows: slice) -> Column:
            part = self.ordered.select(rows)
            # Row -1 has the name "".
            communication = by_op[ops.at("name", self.op_row()[rows], 0)] | by_name[part["name"]]
            communication |= part["message"] > 0
            kernel = np.where(communication, _COMMUNICATION, _COMPUTE)
            other = np.where(part["kind"] == COPY, _COPY, _SET)
            codes: Column = np.where(part["kind"] == KERNEL, kernel, other)
            return codes

        return self.made(of_rows)

    @cached_property
    def kind(self) -> TextColumn:
        """Kind of each: compute, communication, copy or set."""
        return TextColumn(_KINDS, self._kinds)

    @cached_property
    def communication(self) -> Ints:
        """Positions of the communication kernels."""
        found = zip(slices(self.count), self._kinds.parts(), strict=True)
        return np.concatenate(
            [rows.start + np.flatnonzero(kind == _COMMUNICATION) for rows, kind in found]
        )

    @cached_property
    def copy_kind(self) -> TextColumn:
        """Direction, from the arguments or from a name such as ``Memcpy HtoD (...)``."""
        gathered, directions = self.gathered, Text()
        by_name = directions.codes(map(copy_direction, gathered.names.numbers))
        by_text = directions.codes(map(copy_direction, gathered.texts.numbers))

        def of_rows(rows: slice) -> Column:
            part = self.ordered.select(rows)
            text = by_text[part["what"]]
            codes = np.where(text > 0, text, by_name[part["name"]])
            return np.where(part["kind"] == COPY, codes, 0)

        return TextColumn(directions, self.made(of_rows))
