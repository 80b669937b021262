"""From the gathered columns of one trace to the tables of `profkit.schema`."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from profkit import schema
from profkit.convert.kineto.collectives import communication
from profkit.convert.kineto.columns import ANNOTATION, Gathered
from profkit.convert.kineto.context import Context
from profkit.convert.kineto.counters import kernel_metrics
from profkit.convert.kineto.devices import device_names
from profkit.convert.kineto.events import Ints
from profkit.convert.kineto.link import (
    at_or,
    first_with,
    is_annotation,
    step_at,
    step_number,
    threads,
)
from profkit.convert.kineto.messages import NO_MESSAGE, Message
from profkit.convert.kineto.numbering import Column
from profkit.convert.kineto.tree import LEAF, POINT, SPAN, Tree, is_asynchronous, nested
from profkit.convert.kineto.work import Work, launches


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

    def tables(self) -> dict[str, pa.Table]:
        """Return all tables."""
        columns, carried_out = communication(self)
        return {
            "steps": self._steps(),
            "cpu_ops": self._cpu_ops(),
            "kernels": self._kernels(carried_out),
            "collectives": self._table("collectives", len(columns["collective"]), **columns),
            "runtime_calls": self._runtime_calls(),
            "annotations": self._annotations(),
            "memory_events": self._memory_events(),
            "kernel_metrics": self._kernel_metrics(),
            "python_calls": self._python_calls(),
            "synchronisations": self._synchronisations(),
        }

    @cached_property
    def context(self) -> Context:
        """What surrounds operators and device work."""
        return Context(linker=self)

    @cached_property
    def ops(self) -> dict[str, Column]:
        """Operators and annotations on the host."""
        ops = self.gathered.columns("ops")
        # Before PyTorch 1.10 annotations had the category of operators.
        named = self.gathered.names.matching(is_annotation)[ops["name"]]
        return ops | {"kind": np.where(named, ANNOTATION, ops["kind"])}

    @cached_property
    def calls(self) -> dict[str, Column]:
        """Calls of the runtime and the driver."""
        return self.gathered.columns("calls")

    @cached_property
    def work(self) -> Work:
        """Kernels, copies and sets on devices."""
        return Work(linker=self)

    @cached_property
    def device_annotations(self) -> dict[str, Column]:
        """Spans of the work launched inside annotations."""
        return self.gathered.columns("device_annotations")

    @cached_property
    def memory(self) -> dict[str, Column]:
        """Allocations and frees."""
        return self.gathered.columns("memory")

    @cached_property
    def tree(self) -> Tree:
        """Operators, then calls, then memory events, nested by thread."""
        every = (self.ops, self.calls, self.memory)
        counts = [len(columns["start"]) for columns in every]
        start = np.concatenate([columns["start"] for columns in every])
        end = np.concatenate([self.ops["end"], self.calls["end"], self.memory["start"]])
        by_name = self.gathered.names.matching(is_asynchronous)
        asynchronous = np.zeros(len(start), dtype=np.bool_)
        asynchronous[: counts[0]] = by_name[self.ops["name"]]
        return nested(
            thread=threads(
                np.concatenate([columns["pid"] for columns in every]),
                np.concatenate([columns["tid"] for columns in every]),
            ),
            start=start,
            end=end,
            kind=np.repeat(np.array([SPAN, LEAF, POINT], dtype=np.int8), counts),
            created=np.concatenate(
                [self.ops["external"], np.zeros(counts[1] + counts[2], dtype=np.int64)]
            ),
            asynchronous=asynchronous,
        )

    @cached_property
    def op_rows(self) -> Ints:
        """Rows of the operators in the order of the table `cpu_ops`."""
        return self.tree.order[self.tree.order < len(self.ops["start"])]

    @cached_property
    def op_of_row(self) -> Ints:
        """Index in `cpu_ops` of each operator row."""
        index = np.empty(len(self.op_rows), dtype=np.int64)
        index[self.op_rows] = np.arange(len(self.op_rows))
        return index

    @cached_property
    def parents(self) -> Ints:
        """Index in `cpu_ops` of the parent of each row of the tree."""
        return at_or(self.op_of_row, self.tree.parent)

    @cached_property
    def op_step(self) -> Ints:
        """Step of each operator row."""
        return self.host_step(self.ops["start"])

    @cached_property
    def call_op(self) -> Ints:
        """Index in `cpu_ops` of the operator around each call."""
        ops, calls = len(self.ops["start"]), len(self.calls["start"])
        return self.parents[ops : ops + calls]

    def _numbered(self, columns: dict[str, Column]) -> tuple[Ints, Ints, Ints]:
        """Return number, start and end of the ``ProfilerStep#N`` among named ranges."""
        numbers = np.array([step_number(name) for name in self.gathered.names.numbers])
        step = numbers[columns["name"]]
        rows = np.flatnonzero(step >= 0)
        return step[rows], columns["start"][rows], columns["end"][rows]

    @cached_property
    def host_steps(self) -> tuple[Ints, Ints, Ints]:
        """Steps as annotated on the host."""
        return self.given_steps or self._numbered(self.ops)

    @cached_property
    def device_steps(self) -> tuple[Ints, Ints, Ints]:
        """Steps as the spans of the device work launched in them."""
        return self._numbered(self.device_annotations)

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

    def _name(self, codes: Column) -> pa.DictionaryArray:
        return self.gathered.names.decoded(codes)

    def _text(self, codes: Column) -> pa.DictionaryArray:
        return self.gathered.texts.decoded(codes)

    def _steps(self) -> pa.Table:
        step, start, end = self.host_steps
        rows = np.argsort(start, kind="stable")
        unknown = np.full(len(rows), -1, dtype=np.int64)
        return self._table(
            "steps",
            len(rows),
            step=step[rows],
            start_ns=start[rows] + self.base_ns,
            end_ns=end[rows] + self.base_ns,
            samples=unknown,
            peak_memory_bytes=unknown,
        )

    def _cpu_ops(self) -> pa.Table:
        rows, ops, tree = self.op_rows, self.ops, self.tree
        annotation = (ops["kind"][rows] == ANNOTATION).astype(np.int32)
        return self._table(
            "cpu_ops",
            len(rows),
            op=np.arange(len(rows)),
            parent=self.parents[rows],
            pid=ops["pid"][rows],
            tid=ops["tid"][rows],
            name=self._name(ops["name"][rows]),
            kind=schema.text(annotation, ["operator", "annotation"]),
            start_ns=ops["start"][rows] + self.base_ns,
            end_ns=tree.end[rows] + self.base_ns,
            self_ns=tree.self_ns[rows],
            step=self.op_step[rows],
            sequence=ops["sequence"][rows],
            forward_tid=ops["forward_tid"][rows],
            external=ops["external"][rows],
            input_shapes=self._text(ops["shapes"][rows]),
            input_types=self._text(ops["types"][rows]),
            inputs=self._text(ops["inputs"][rows]),
            **self.context.of_ops(rows),
        )

    def _runtime_calls(self) -> pa.Table:
        calls = self.calls
        rows = np.argsort(calls["start"], kind="stable")
        start = calls["start"][rows]
        return self._table(
            "runtime_calls",
            len(rows),
            tid=calls["tid"][rows],
            name=self._name(calls["name"][rows]),
            start_ns=start + self.base_ns,
            end_ns=calls["end"][rows] + self.base_ns,
            correlation=calls["correlation"][rows],
            op=self.call_op[rows],
            step=self.host_step(start),
        )

    def _kernels(self, collective: Ints) -> pa.Table:
        work, columns = self.work, self.work.columns
        return self._table(
            "kernels",
            len(collective),
            device=columns["device"],
            stream=columns["stream"],
            name=self._name(columns["name"]),
            kind=work.kind,
            start_ns=columns["start"] + self.base_ns,
            end_ns=columns["end"] + self.base_ns,
            correlation=columns["correlation"],
            op=work.op,
            step=work.step,
            size_bytes=columns["size"],
            copy_kind=work.copy_kind,
            grid=self._text(columns["grid"]),
            block=self._text(columns["block"]),
            registers=columns["registers"],
            shared_memory_bytes=columns["shared_memory"],
            blocks_per_sm=columns["blocks_per_sm"],
            warps_per_sm=columns["warps_per_sm"],
            occupancy_percent=columns["occupancy"],
            graph=columns["graph"],
            graph_node=columns["graph_node"],
            collective=collective,
            **self.context.of_work(work.call, work.op_row),
        )

    def _annotations(self) -> pa.Table:
        rows = self.op_rows[self.ops["kind"][self.op_rows] == ANNOTATION]
        host, device = self.ops, self.device_annotations
        order = np.argsort(device["start"], kind="stable")
        device = {name: column[order] for name, column in device.items()}
        op_row = self.by_external(device["external"])
        around = step_at(device["start"], *self.device_steps)
        on_device = np.repeat(np.array([0, 1], dtype=np.int32), [len(rows), len(order)])
        both = {
            name: np.concatenate([host[name][rows], device[name]])
            for name in ("tid", "name", "start", "end")
        }
        return self._table(
            "annotations",
            len(on_device),
            kind=schema.text(on_device, ["host", "device"]),
            tid=both["tid"],
            name=self._name(both["name"]),
            start_ns=both["start"] + self.base_ns,
            end_ns=both["end"] + self.base_ns,
            op=np.concatenate([self.op_of_row[rows], at_or(self.op_of_row, op_row)]),
            step=np.concatenate([self.op_step[rows], at_or(self.op_step, op_row, around)]),
        )

    def _python_calls(self) -> pa.Table:
        calls = self.context.python_calls()
        return self._table("python_calls", len(self.context.python["start"]), **calls)

    def _kernel_metrics(self) -> pa.Table:
        columns = kernel_metrics(self, self.gathered.columns("counters"))
        return self._table("kernel_metrics", len(columns["kernel"]), **columns)

    def _synchronisations(self) -> pa.Table:
        waits = self.gathered.columns("synchronisations")
        rows = np.argsort(waits["start"], kind="stable")
        waits = {name: column[rows] for name, column in waits.items()}
        call, op = launches(self, waits | {"external": np.full(len(rows), -1, dtype=np.int64)})
        return self._table(
            "synchronisations",
            len(rows),
            device=waits["device"],
            stream=waits["stream"],
            name=self._name(waits["name"]),
            start_ns=waits["start"] + self.base_ns,
            end_ns=waits["end"] + self.base_ns,
            correlation=waits["correlation"],
            awaited_stream=waits["awaited_stream"],
            awaited_correlation=waits["awaited_correlation"],
            op=op,
            step=at_or(self.host_step(self.calls["start"]), call),
        )

    def _memory_events(self) -> pa.Table:
        memory = self.memory
        rows = np.argsort(memory["start"], kind="stable")
        parents = self.parents[len(self.parents) - len(rows) :]
        return self._table(
            "memory_events",
            len(rows),
            time_ns=memory["start"][rows] + self.base_ns,
            tid=memory["tid"][rows],
            device=device_names(memory["device_type"][rows], memory["device_id"][rows]),
            address=memory["address"][rows],
            size_bytes=memory["size"][rows],
            allocated_bytes=memory["allocated"][rows],
            reserved_bytes=memory["reserved"][rows],
            op=parents[rows],
            step=self.host_step(memory["start"][rows]),
            action=schema.text((memory["size"][rows] < 0).astype(np.int32), ["alloc", "free"]),
        )
