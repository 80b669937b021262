"""Work on devices: the call and the operator that launched it, its step, and its kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profkit.convert.kineto.coded import Coded
from profkit.convert.kineto.columns import COPY, KERNEL
from profkit.convert.kineto.events import Ints
from profkit.convert.kineto.link import (
    any_row,
    at_or,
    copy_direction,
    first_with,
    launches_communication,
    names_communication,
    step_at,
)
from profkit.convert.kineto.numbering import Column, Text
from profkit.convert.kineto.spill import Held, Ordered, Spill, held

if TYPE_CHECKING:
    from profkit.convert.kineto.tables import Linker

_KINDS = Text()
_COMPUTE, _COMMUNICATION, _COPY, _SET = _KINDS.codes(
    ["compute", "communication", "copy", "set"]
).tolist()


@dataclass(frozen=True, kw_only=True)
class Work:
    """The kernels, copies and sets of one trace in the order of the table `kernels`."""

    linker: "Linker"

    @cached_property
    def columns(self) -> Ordered:
        """What was recorded of each, by start."""
        recorded = self.linker.gathered.columns("device_work")
        return Ordered(recorded, np.argsort(recorded["start"], kind="stable"))

    @property
    def spill(self) -> Spill:
        """Where columns are kept."""
        return self.linker.spill

    @property
    def count(self) -> int:
        """Number of pieces of work."""
        return self.columns.columns.count

    @cached_property
    def _launches(self) -> tuple[Held, Held]:
        call, op = launches(self.linker, self.columns)
        return Held(self.spill, call), Held(self.spill, op)

    @property
    def call(self) -> Ints:
        """Row of the launching call of each; -1 if unknown."""
        return self._launches[0]()

    @property
    def op(self) -> Ints:
        """Index in `cpu_ops` of the operator that each belongs to; -1 if unknown."""
        return self._launches[1]()

    @held
    def op_row(self) -> Ints:
        """Row of that operator."""
        return at_or(self.linker.op_rows, self.op)

    @held
    def step(self) -> Ints:
        """Step of each launch; without one, the device-side step around the work."""
        linker = self.linker
        launched = at_or(linker.host_step(linker.calls["start"]), self.call)
        by_op = np.where(self.call >= 0, launched, at_or(linker.op_step, self.op_row))
        around = step_at(self.columns["start"], *linker.device_steps)
        return np.where((self.call >= 0) | (self.op_row >= 0), by_op, around)

    @held
    def _kind(self) -> Column:
        """Return the number of the kind of each."""
        names, work = self.linker.gathered.names, self.columns
        by_op = names.matching(launches_communication)[self.linker.ops["name"]]
        communication = (work["message"] > 0) | any_row(by_op, self.op_row)
        communication |= names.matching(names_communication)[work["name"]]
        kernel = np.where(communication, _COMMUNICATION, _COMPUTE)
        other = np.where(work["kind"] == COPY, _COPY, _SET)
        codes: Column = np.where(work["kind"] == KERNEL, kernel, other)
        return codes

    @cached_property
    def kind(self) -> Coded:
        """Kind of each: compute, communication, copy or set."""
        return Coded(_KINDS, self._kind, self.spill)

    @cached_property
    def communication(self) -> Ints:
        """Positions of the communication kernels."""
        return np.flatnonzero(self._kind == _COMMUNICATION)

    @cached_property
    def copy_kind(self) -> Coded:
        """Direction, from the arguments or from a name such as ``Memcpy HtoD (...)``."""
        gathered, work = self.linker.gathered, self.columns
        directions = Text()
        by_name = directions.codes(map(copy_direction, gathered.names.numbers))[work["name"]]
        by_text = directions.codes(map(copy_direction, gathered.texts.numbers))[work["what"]]
        codes = np.where(by_text > 0, by_text, by_name)
        return Coded(directions, np.where(work["kind"] == COPY, codes, 0), self.spill)


def launches(linker: "Linker", work: Mapping[str, Column]) -> tuple[Ints, Ints]:
    """Return the launching call's row and the operator's index of each piece of `work`.

    Its columns are `correlation` and `external`.
    """
    calls = linker.calls
    call = first_with(calls["correlation"], work["correlation"], order_by=calls["start"])
    op = at_or(linker.call_op, call)
    # Before PyTorch 2.1 the external id of device work was its correlation, not an operator's.
    own = np.where(work["external"] == work["correlation"], -1, work["external"])
    return call, np.where(op >= 0, op, at_or(linker.op_of_row, linker.by_external(own)))
