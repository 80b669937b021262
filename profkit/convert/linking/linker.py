"""From the gathered columns of one trace to the tables of `profkit.tables.schema`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.columns.numbering import Column, Occurring
from profkit.convert.columns.spill import Spill
from profkit.convert.columns.stored import Columns, Held, slices
from profkit.convert.columns.values import Ints
from profkit.convert.linking.collectives import communication
from profkit.convert.linking.context import Context
from profkit.convert.linking.counters import kernel_metrics
from profkit.convert.linking.device_names import device_names
from profkit.convert.linking.gathered import ANNOTATION, Gathered
from profkit.convert.linking.hosts import Nesting, Row, nesting
from profkit.convert.linking.link import at_or, is_annotation, step_at, step_number
from profkit.convert.linking.messages import NO_MESSAGE, Message
from profkit.convert.linking.ordered import Ordered, first_with
from profkit.convert.linking.tree import is_asynchronous
from profkit.convert.linking.work import Work, launching_calls
from profkit.tables import schema

# Columns of `kernels` that are called what they are while they are gathered.
_PLAIN = ("device", "stream", "correlation", "registers", "blocks_per_sm", "warps_per_sm", "graph",
          "graph_node")  # fmt: skip

Chunks = Iterator[pa.Table]


@dataclass(frozen=True, kw_only=True)
class Linker:
    """The columns of one trace and what connects them; rows are positions in the columns."""

    gathered: Gathered
    rank: int
    repeat: int
    base_ns: int
    """Added to every time."""
    group: Message = NO_MESSAGE
    """The process group of calls that name none, where there is only one."""
    given_steps: tuple[Ints, Ints, Ints] | None = None
    """Number, start and end of the steps, from a recorder that does not call them ProfilerStep."""
    pool: Executor | None = None
    """Another process, which links the calls of Python meanwhile."""

    def begin(self) -> None:
        """Have `pool` begin; what it finds is waited for when it is needed."""
        _ = self.context.asked

    def chunks(self) -> Mapping[str, Callable[[], Chunks]]:
        """Return what makes each table, in chunks of rows."""
        return {
            "steps": self._steps,
            "annotations": self._annotations,
            "runtime_calls": self._runtime_calls,
            "memory_events": self._memory_events,
            "synchronisations": self._synchronisations,
            "kernel_metrics": self._kernel_metrics,
            "collectives": self._collectives,
            "kernels": self._kernels,
            "cpu_ops": self._cpu_ops,
            "python_calls": self.context.python_calls,
        }

    def writers(self) -> Mapping[str, Callable[[Path], int]]:
        """Return what leaves a table as a file that another process writes: as `chunks` has it."""
        return {"python_calls": self.context.write_python_calls} if self.pool else {}

    def tables(self) -> dict[str, pa.Table]:
        """Return all tables, whole."""
        return {name: pa.concat_tables(made()) for name, made in self.chunks().items()}

    @cached_property
    def context(self) -> Context:
        """What surrounds operators and device work."""
        return Context(linker=self)

    @cached_property
    def ops(self) -> Columns:
        """Operators and annotations on the host."""
        return self.gathered.columns("ops")

    @cached_property
    def calls(self) -> Columns:
        """Calls of the runtime and the driver."""
        return self.gathered.columns("calls")

    @cached_property
    def work(self) -> Work:
        """Kernels, copies and sets on devices."""
        return Work(linker=self)

    @cached_property
    def device_annotations(self) -> Columns:
        """Spans of the work launched inside annotations."""
        return self.gathered.columns("device_annotations")

    @cached_property
    def memory(self) -> Columns:
        """Allocations and frees."""
        return self.gathered.columns("memory")

    @cached_property
    def tree(self) -> Nesting:
        """Operators, then calls, then memory events, nested by thread."""
        asynchronous = self.gathered.names.matching(is_asynchronous)
        return nesting(self.ops, self.calls, self.memory, asynchronous=asynchronous)

    @property
    def spill(self) -> Spill:
        """Where columns are kept."""
        return self.gathered.spill

    @property
    def op_rows(self) -> Row:
        """Rows of the operators in the order of the table `cpu_ops`."""
        return self.tree.op_rows()

    @property
    def op_of_row(self) -> Row:
        """Index in `cpu_ops` of each operator row."""
        return self.tree.op_of_row()

    def op_around(self, rows: Column) -> Ints:
        """Return the index in `cpu_ops` of the operator around each of these rows of the tree."""
        return at_or(self.op_of_row, self.tree.parent()[rows])

    @cached_property
    def annotates(self) -> Held:
        """Whether each operator row is an annotation."""
        # Before PyTorch 1.10 annotations had the category of operators.
        by_name = self.gathered.names.matching(is_annotation)
        kinds = (by_name[part["name"]] | (part["kind"] == ANNOTATION) for part in self.ops.parts())
        return Held.of(self.spill, self.ops.count, kinds, np.bool_)

    @cached_property
    def op_step(self) -> Held:
        """Step of each operator row."""
        return self._steps_of(self.ops)

    @cached_property
    def call_step(self) -> Held:
        """Step of each call."""
        return self._steps_of(self.calls)

    def _steps_of(self, rows: Columns) -> Held:
        steps = (self.host_step(part["start"]) for part in rows.parts())
        return Held.of(self.spill, rows.count, steps)

    @cached_property
    def call_op(self) -> Held:
        """Index in `cpu_ops` of the operator around each call."""
        first, count = self.ops.count, self.calls.count
        rows = (first + np.arange(part.start, part.stop) for part in slices(count))
        return Held.of(self.spill, count, map(self.op_around, rows))

    def _numbered(self, columns: Columns) -> tuple[Ints, Ints, Ints]:
        """Return number, start and end of the ``ProfilerStep#N`` among named ranges."""
        numbers = np.array([step_number(name) for name in self.gathered.names.numbers])
        steps = columns.chosen(columns.named(numbers >= 0))
        return numbers[steps["name"]], steps["start"], steps["end"]

    @cached_property
    def _marked_steps(self) -> tuple[Ints, Ints, Ints]:
        """Number, start and end of the steps as they were recorded, in order of time."""
        number, start, end = self.given_steps or self._numbered(self.ops)
        order = np.argsort(start, kind="stable")
        return number[order], start[order], end[order]

    @cached_property
    def repeated_steps(self) -> int:
        """How many steps, which do not overlap, have the number of another one."""
        number, start, end = self._marked_steps
        apart = (start[1:] >= end[:-1]).all()
        return len(number) - len(set(number.tolist())) if apart else 0

    @cached_property
    def host_steps(self) -> tuple[Ints, Ints, Ints]:
        """Steps as annotated on the host; where numbers come again, they are counted on."""
        number, start, end = self._marked_steps
        counted = number.min() + np.arange(len(number)) if self.repeated_steps else number
        return counted, start, end

    @cached_property
    def device_steps(self) -> tuple[Ints, Ints, Ints]:
        """Steps as the spans of the device work launched in them."""
        step, start, end = self._numbered(self.device_annotations)
        # Which of several steps a number means, only the host can tell.
        known = slice(0 if self.repeated_steps else None)
        return step[known], start[known], end[known]

    def host_step(self, times: Ints) -> Ints:
        """Return the step that each time on the host lies in."""
        return step_at(times, *self.host_steps)

    def _table(self, name: str, count: int, /, **columns: object) -> pa.Table:
        where = {
            "rank": np.full(count, self.rank, dtype=np.int32),
            "repeat": np.full(count, self.repeat, dtype=np.int32),
        }
        return schema.table(name, where | columns)

    def _name(self, codes: Iterable[Column]) -> Occurring:
        return Occurring(self.gathered.names, codes)

    def _text(self, codes: Iterable[Column]) -> Occurring:
        return Occurring(self.gathered.texts, codes)

    def _steps(self) -> Chunks:
        step, start, end = self.host_steps
        unknown = np.full(len(step), -1, dtype=np.int64)
        yield self._table(
            "steps",
            len(step),
            step=step,
            start_ns=start + self.base_ns,
            end_ns=end + self.base_ns,
            samples=unknown,
            peak_memory_bytes=unknown,
        )

    def _cpu_ops(self) -> Chunks:
        tree = self.tree
        name = self._name(self.ops.each("name"))
        texts = {each: self._text(self.ops.each(each)) for each in ("shapes", "types", "inputs")}
        for part in slices(self.ops.count):
            rows = self.op_rows[part]
            ops = self.ops.chosen(rows)
            yield self._table(
                "cpu_ops",
                len(rows),
                op=np.arange(part.start, part.stop),
                parent=at_or(self.op_of_row, tree.parent()[rows]),
                pid=ops["pid"],
                tid=ops["tid"],
                name=name.of(ops["name"]),
                kind=schema.text(
                    self.annotates()[rows].astype(np.int32), ["operator", "annotation"]
                ),
                start_ns=ops["start"] + self.base_ns,
                end_ns=tree.end()[rows] + self.base_ns,
                self_ns=tree.self_ns()[rows],
                step=self.op_step()[rows],
                sequence=ops["sequence"],
                forward_tid=ops["forward_tid"],
                external=ops["external"],
                input_shapes=texts["shapes"].of(ops["shapes"]),
                input_types=texts["types"].of(ops["types"]),
                inputs=texts["inputs"].of(ops["inputs"]),
                **self.context.of_ops(rows),
            )

    def _runtime_calls(self) -> Chunks:
        ordered = Ordered(self.calls)
        name = self._name(self.calls.each("name"))
        for part in slices(ordered.count):
            rows, calls = ordered.rows(part), ordered.chosen(part)
            yield self._table(
                "runtime_calls",
                len(rows),
                tid=calls["tid"],
                name=name.of(calls["name"]),
                start_ns=calls["start"] + self.base_ns,
                end_ns=calls["end"] + self.base_ns,
                correlation=calls["correlation"],
                op=self.call_op()[rows],
                step=self.call_step()[rows],
            )

    def _collectives(self) -> Chunks:
        columns, _ = self._communication
        yield self._table("collectives", len(columns["collective"]), **columns)

    @cached_property
    def _communication(self) -> tuple[dict[str, Any], Held]:
        return communication(self)

    def _kernels(self) -> Chunks:
        work, recorded = self.work, self.work.ordered.table
        _, carried_out = self._communication
        name = self._name(recorded.each("name"))
        texts = {each: self._text(recorded.each(each)) for each in ("grid", "block")}
        context = self.context.of_work(work)
        for part in slices(work.count):
            collective = carried_out()[part]
            columns = work.ordered.chosen(part)
            own = {each: columns[each] for each in _PLAIN}
            yield self._table(
                "kernels",
                len(collective),
                **own,
                name=name.of(columns["name"]),
                kind=work.kind.of(part),
                start_ns=columns["start"] + self.base_ns,
                end_ns=columns["end"] + self.base_ns,
                op=work.op()[part],
                step=work.step()[part],
                size_bytes=columns["size"],
                copy_kind=work.copy_kind.of(part),
                grid=texts["grid"].of(columns["grid"]),
                block=texts["block"].of(columns["block"]),
                shared_memory_bytes=columns["shared_memory"],
                occupancy_percent=columns["occupancy"],
                collective=collective,
                **{each: column.of(part) for each, column in context.items()},
            )

    def _annotations(self) -> Chunks:
        by_part = (self.op_rows[part] for part in slices(self.ops.count))
        rows = np.concatenate([part[self.annotates()[part]] for part in by_part])
        host, device = self.ops.chosen(rows), Ordered(self.device_annotations)
        op_rows = first_with(self.ops, "external", device.held("external"))
        name = self._name(chain([host["name"]], self.device_annotations.each("name")))
        yield self._ranges(0, host, name, op=self.op_of_row[rows], step=self.op_step()[rows])
        for part in slices(device.count):
            columns, row = device.chosen(part), op_rows()[part]
            around = step_at(columns["start"], *self.device_steps)
            op, step = at_or(self.op_of_row, row), at_or(self.op_step(), row, around)
            yield self._ranges(1, columns, name, op=op, step=step)

    def _ranges(
        self, on_device: int, found: Mapping[str, Column], name: Occurring, **known: Column
    ) -> pa.Table:
        """Return rows of `annotations`, all of the host or all of devices."""
        count = len(known["op"])
        return self._table(
            "annotations",
            count,
            kind=schema.text(np.full(count, on_device, dtype=np.int32), ["host", "device"]),
            tid=found["tid"],
            name=name.of(found["name"]),
            start_ns=found["start"] + self.base_ns,
            end_ns=found["end"] + self.base_ns,
            **known,
        )

    def _kernel_metrics(self) -> Chunks:
        columns = kernel_metrics(self, self.gathered.columns("counters"))
        yield self._table("kernel_metrics", len(columns["kernel"]), **columns)

    def _synchronisations(self) -> Chunks:
        recorded = self.gathered.columns("synchronisations")
        ordered, name = Ordered(recorded), self._name(recorded.each("name"))
        launching = launching_calls(self, ordered)
        for part in slices(ordered.count):
            waits, call = ordered.chosen(part), launching()[part]
            yield self._table(
                "synchronisations",
                len(call),
                device=waits["device"],
                stream=waits["stream"],
                name=name.of(waits["name"]),
                start_ns=waits["start"] + self.base_ns,
                end_ns=waits["end"] + self.base_ns,
                correlation=waits["correlation"],
                awaited_stream=waits["awaited_stream"],
                awaited_correlation=waits["awaited_correlation"],
                op=at_or(self.call_op(), call),
                step=at_or(self.call_step(), call),
            )

    def _memory_events(self) -> Chunks:
        ordered, names = Ordered(self.memory), device_names(self.memory)
        first = self.ops.count + self.calls.count
        for part in slices(ordered.count):
            rows, memory = ordered.rows(part), ordered.chosen(part)
            size, start = memory["size"], memory["start"]
            yield self._table(
                "memory_events",
                len(rows),
                time_ns=start + self.base_ns,
                tid=memory["tid"],
                device=names.of(rows),
                address=memory["address"],
                size_bytes=size,
                allocated_bytes=memory["allocated"],
                reserved_bytes=memory["reserved"],
                op=self.op_around(first + rows),
                step=self.host_step(start),
                action=schema.text((size < 0).astype(np.int32), ["alloc", "free"]),
            )
