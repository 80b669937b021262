"""From the gathered columns of one trace to the tables of `profkit.schema`."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit import schema
from profkit.convert.kineto.collectives import communication
from profkit.convert.kineto.columns import ANNOTATION, Gathered
from profkit.convert.kineto.context import Context
from profkit.convert.kineto.counters import kernel_metrics
from profkit.convert.kineto.devices import device_names
from profkit.convert.kineto.events import Ints
from profkit.convert.kineto.hosts import Nesting, Row, nesting
from profkit.convert.kineto.link import (
    at_or,
    first_with,
    is_annotation,
    step_at,
    step_number,
)
from profkit.convert.kineto.messages import NO_MESSAGE, Message
from profkit.convert.kineto.numbering import Column, Occurring
from profkit.convert.kineto.spill import Columns, Held, Spill, held
from profkit.convert.kineto.tree import is_asynchronous
from profkit.convert.kineto.windows import threads_of
from profkit.convert.kineto.work import Work, launches

# Columns of `kernels` that are called what they are while they are gathered.
_PLAIN = ("device", "stream", "correlation", "registers", "blocks_per_sm", "warps_per_sm", "graph",
          "graph_node")  # fmt: skip
_CHUNK_ROWS = 1 << 15
"""Rows of a table that are made, and written, at once."""

Chunks = Iterator[pa.Table]


def slices(count: int) -> Iterator[slice]:
    """Yield the rows of each chunk of a table; one without rows of an empty one."""
    for first in range(0, max(count, 1), _CHUNK_ROWS):
        yield slice(first, min(first + _CHUNK_ROWS, count))


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
        ops = self.gathered.columns("ops")
        # Before PyTorch 1.10 annotations had the category of operators.
        named = self.gathered.names.matching(is_annotation)[ops["name"]]
        return ops.replaced(kind=np.where(named, ANNOTATION, ops["kind"]).astype(np.int8))

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

    @held
    def op_of_row(self) -> Row:
        """Index in `cpu_ops` of each operator row."""
        rows = self.op_rows
        index = np.empty(len(rows), dtype=np.int32)
        index[rows] = np.arange(len(rows), dtype=np.int32)
        return index

    def op_around(self, rows: slice) -> Ints:
        """Return the index in `cpu_ops` of the operator around each of these rows of the tree."""
        return at_or(self.op_of_row, self.tree.parent()[rows])

    @held
    def op_step(self) -> Column:
        """Step of each operator row."""
        return self.host_step(self.ops["start"]).astype(np.int32)

    @property
    def shared_correlations(self) -> int:
        """How many correlation ids calls of more than one process have, as in merged traces."""
        if len(threads_of([self.calls]).pids) < 2:  # noqa: PLR2004 - of almost every trace
            return 0
        pairs = np.stack([self.calls["correlation"], self.calls["pid"]])
        ids = np.unique(pairs[:, pairs[0] > 0], axis=1)[0]
        return len(np.unique(ids[1:][ids[1:] == ids[:-1]]))

    @held
    def call_op(self) -> Ints:
        """Index in `cpu_ops` of the operator around each call."""
        first = self.ops.count
        return self.op_around(slice(first, first + self.calls.count))

    def _numbered(self, columns: Columns) -> tuple[Ints, Ints, Ints]:
        """Return number, start and end of the ``ProfilerStep#N`` among named ranges."""
        numbers = np.array([step_number(name) for name in self.gathered.names.numbers])
        step = numbers[columns["name"]]
        rows = np.flatnonzero(step >= 0)
        return step[rows], columns["start"][rows], columns["end"][rows]

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

    def by_external(self, external: Ints) -> Ints:
        """Return the operator row with each external id."""
        return first_with(self.ops["external"], external, order_by=self.ops["start"])

    def _table(self, name: str, count: int, /, **columns: object) -> pa.Table:
        where = {
            "rank": np.full(count, self.rank, dtype=np.int32),
            "repeat": np.full(count, self.repeat, dtype=np.int32),
        }
        return schema.table(name, where | columns)

    def _name(self, codes: Column) -> Occurring:
        return Occurring(self.gathered.names, [codes])

    def _text(self, codes: Column) -> Occurring:
        return Occurring(self.gathered.texts, [codes])

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
        ops, tree = self.ops, self.tree
        name = self._name(ops["name"])
        texts = {each: self._text(ops[each]) for each in ("shapes", "types", "inputs")}
        for part in slices(ops.count):
            rows = self.op_rows[part]
            annotation = (ops.at("kind", rows) == ANNOTATION).astype(np.int32)
            yield self._table(
                "cpu_ops",
                len(rows),
                op=np.arange(part.start, part.stop),
                parent=at_or(self.op_of_row, tree.parent()[rows]),
                pid=ops.at("pid", rows),
                tid=ops.at("tid", rows),
                name=name.of(ops.at("name", rows)),
                kind=schema.text(annotation, ["operator", "annotation"]),
                start_ns=ops.at("start", rows) + self.base_ns,
                end_ns=tree.end()[rows] + self.base_ns,
                self_ns=tree.self_ns()[rows],
                step=self.op_step[rows],
                sequence=ops.at("sequence", rows),
                forward_tid=ops.at("forward_tid", rows),
                external=ops.at("external", rows),
                input_shapes=texts["shapes"].of(ops.at("shapes", rows)),
                input_types=texts["types"].of(ops.at("types", rows)),
                inputs=texts["inputs"].of(ops.at("inputs", rows)),
                **self.context.of_ops(rows),
            )

    def _runtime_calls(self) -> Chunks:
        calls = self.calls
        order = np.argsort(calls["start"], kind="stable")
        name = self._name(calls["name"])
        for part in slices(len(order)):
            rows = order[part]
            start = calls.at("start", rows)
            yield self._table(
                "runtime_calls",
                len(rows),
                tid=calls.at("tid", rows),
                name=name.of(calls.at("name", rows)),
                start_ns=start + self.base_ns,
                end_ns=calls.at("end", rows) + self.base_ns,
                correlation=calls.at("correlation", rows),
                op=self.call_op[rows],
                step=self.host_step(start),
            )

    def _collectives(self) -> Chunks:
        columns, _ = self._communication
        yield self._table("collectives", len(columns["collective"]), **columns)

    @cached_property
    def _communication(self) -> tuple[dict[str, Any], Held]:
        columns, carried_out = communication(self)
        return columns, Held(self.spill, carried_out)

    def _kernels(self) -> Chunks:
        work, columns = self.work, self.work.columns
        _, carried_out = self._communication
        name = self._name(columns["name"])
        grid, block = self._text(columns["grid"]), self._text(columns["block"])
        context = self.context.of_work(work.call, work.op_row)
        for part in slices(work.count):
            collective = carried_out()[part]
            own = {each: columns.at(each, part) for each in _PLAIN}
            yield self._table(
                "kernels",
                len(collective),
                **own,
                name=name.of(columns.at("name", part)),
                kind=work.kind.of(part),
                start_ns=columns.at("start", part) + self.base_ns,
                end_ns=columns.at("end", part) + self.base_ns,
                op=work.op[part],
                step=work.step[part],
                size_bytes=columns.at("size", part),
                copy_kind=work.copy_kind.of(part),
                grid=grid.of(columns.at("grid", part)),
                block=block.of(columns.at("block", part)),
                shared_memory_bytes=columns.at("shared_memory", part),
                occupancy_percent=columns.at("occupancy", part),
                collective=collective,
                **{each: column.of(part) for each, column in context.items()},
            )

    def _annotations(self) -> Chunks:
        rows = self.op_rows[self.ops["kind"][self.op_rows] == ANNOTATION]
        host, recorded = self.ops, self.device_annotations
        order = np.argsort(recorded["start"], kind="stable")
        device = {name: recorded[name][order] for name in recorded}
        op_row = self.by_external(device["external"])
        around = step_at(device["start"], *self.device_steps)
        on_device = np.repeat(np.array([0, 1], dtype=np.int32), [len(rows), len(order)])
        both = {
            name: np.concatenate([host.at(name, rows), device[name]])
            for name in ("tid", "name", "start", "end")
        }
        yield self._table(
            "annotations",
            len(on_device),
            kind=schema.text(on_device, ["host", "device"]),
            tid=both["tid"],
            name=self.gathered.names.decoded(both["name"]),
            start_ns=both["start"] + self.base_ns,
            end_ns=both["end"] + self.base_ns,
            op=np.concatenate([self.op_of_row[rows], at_or(self.op_of_row, op_row)]),
            step=np.concatenate([self.op_step[rows], at_or(self.op_step, op_row, around)]),
        )

    def _kernel_metrics(self) -> Chunks:
        columns = kernel_metrics(self, self.gathered.columns("counters"))
        yield self._table("kernel_metrics", len(columns["kernel"]), **columns)

    def _synchronisations(self) -> Chunks:
        recorded = self.gathered.columns("synchronisations")
        rows = np.argsort(recorded["start"], kind="stable")
        waits = {name: recorded[name][rows] for name in recorded}
        call, op = launches(self, waits | {"external": np.full(len(rows), -1, dtype=np.int64)})
        yield self._table(
            "synchronisations",
            len(rows),
            device=waits["device"],
            stream=waits["stream"],
            name=self.gathered.names.decoded(waits["name"]),
            start_ns=waits["start"] + self.base_ns,
            end_ns=waits["end"] + self.base_ns,
            correlation=waits["correlation"],
            awaited_stream=waits["awaited_stream"],
            awaited_correlation=waits["awaited_correlation"],
            op=op,
            step=at_or(self.host_step(self.calls["start"]), call),
        )

    def _memory_events(self) -> Chunks:
        memory = self.memory
        order = np.argsort(memory["start"], kind="stable")
        parents = self.op_around(slice(self.ops.count + self.calls.count, None))
        names = device_names(memory["device_type"], memory["device_id"], self.spill)
        for part in slices(len(order)):
            rows = order[part]
            size = memory.at("size", rows)
            start = memory.at("start", rows)
            yield self._table(
                "memory_events",
                len(rows),
                time_ns=start + self.base_ns,
                tid=memory.at("tid", rows),
                device=names.of(rows),
                address=memory.at("address", rows),
                size_bytes=size,
                allocated_bytes=memory.at("allocated", rows),
                reserved_bytes=memory.at("reserved", rows),
                op=parents[rows],
                step=self.host_step(start),
                action=schema.text((size < 0).astype(np.int32), ["alloc", "free"]),
            )
