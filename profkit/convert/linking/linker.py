"""From the gathered columns of one recording to the tables of `profkit.tables.schema`."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.columns.numbering import Occurring
from profkit.convert.columns.on_disk import Columns, DiskColumn, slices
from profkit.convert.linking.collectives import communication
from profkit.convert.linking.context import Context
from profkit.convert.linking.counters import of_kernels, order_of
from profkit.convert.linking.device_names import device_names
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.gathered import Gathered
from profkit.convert.linking.launches import Launches
from profkit.convert.linking.lookup import at_or
from profkit.convert.linking.messages import Message
from profkit.convert.linking.operators import Operators
from profkit.convert.linking.ordered import Ordered, first_with
from profkit.convert.linking.origin import Origin
from profkit.convert.linking.python_stacks import PythonStacks
from profkit.convert.linking.steps import Steps, StepSpans
from profkit.convert.linking.table_chunks import TableChunks
from profkit.tables import schema

Chunks = Iterator[pa.Table]

_AS_GATHERED = ("memory_events", "synchronisations", "kernel_metrics", "kernels", "python_calls")
"""Tables whose rows are those that were gathered under their name."""


@dataclass(frozen=True, kw_only=True)
class Linker:
    """Ties the rows of one recording together, and makes tables of them."""

    gathered: Gathered
    origin: Origin
    groups: Mapping[str, Message] = field(default_factory=dict)
    """Process groups by name; that of calls that name none has the name ""."""
    given_steps: StepSpans | None = None
    """Steps of a recorder that does not call them ProfilerStep."""
    ended_steps: int = -1
    """See `Steps`."""
    pool: Executor | None = None
    """Another process, which links the calls of Python meanwhile."""

    def begin(self) -> None:
        """Have `pool` begin; what it finds is waited for when it is needed."""
        _ = self.python.asked

    def chunks(self) -> Mapping[str, Callable[[], Chunks]]:
        """Return what makes each table, in chunks of rows."""
        made = {
            "steps": self._steps,
            "annotations": self._annotations,
            "runtime_calls": self._runtime_calls,
            "memory_events": self._memory_events,
            "synchronisations": self._synchronisations,
            "kernel_metrics": self._kernel_metrics,
            "collectives": self._collectives,
            "kernels": self._kernels,
            "cpu_ops": self._cpu_ops,
            "python_calls": self.python.chunks,
        }
        # What has no row takes as long as some hundred rows to link, and most traces lack some.
        unlinked = [name for name in _AS_GATHERED if not self.gathered.columns(name).count]
        return made | {name: partial(_nothing, name) for name in unlinked}

    def writers(self) -> Mapping[str, Callable[[Path], int]]:
        """Return what leaves a table as a file that another process writes: as `chunks` has it."""
        return {"python_calls": self.python.write} if self.pool else {}

    def tables(self) -> dict[str, pa.Table]:
        """Return all tables, whole."""
        return {name: pa.concat_tables(made()) for name, made in self.chunks().items()}

    @cached_property
    def steps(self) -> Steps:
        """Steps on the CPU and on devices."""
        given, ended = self.given_steps, self.ended_steps
        return Steps(gathered=self.gathered, given=given, ended=ended)

    @cached_property
    def operators(self) -> Operators:
        """Operators and annotations on CPU threads."""
        return Operators(gathered=self.gathered, steps=self.steps)

    @cached_property
    def launches(self) -> Launches:
        """Calls of the runtime and the driver."""
        return Launches(gathered=self.gathered, operators=self.operators, steps=self.steps)

    @cached_property
    def work(self) -> DeviceWork:
        """Kernels, copies and sets on devices."""
        return DeviceWork(
            gathered=self.gathered,
            operators=self.operators,
            launches=self.launches,
            steps=self.steps,
        )

    @cached_property
    def python(self) -> PythonStacks:
        """Calls of Python functions and modules."""
        return PythonStacks(
            gathered=self.gathered, origin=self.origin, steps=self.steps, pool=self.pool
        )

    @cached_property
    def context(self) -> Context:
        """What surrounds operators and device work."""
        return Context(operators=self.operators, python=self.python)

    def _table(self, name: str, recorded: Columns) -> TableChunks:
        return TableChunks(name=name, recorded=recorded, gathered=self.gathered, origin=self.origin)

    def _steps(self) -> Chunks:
        number, start, end = self.steps.host
        base_ns = self.origin.base_ns
        columns = {"step": number, "start_ns": start + base_ns, "end_ns": end + base_ns}
        yield self.origin.table("steps", len(number), columns)

    def _cpu_ops(self) -> Chunks:
        operators, recorded = self.operators, self.operators.recorded
        tree, table = operators.tree, self._table("cpu_ops", recorded)
        for part in slices(recorded.count):
            rows = operators.rows[part]
            annotates = operators.annotates()[rows].astype(np.int32)
            yield table.chunk(
                recorded.select(rows),
                op=np.arange(part.start, part.stop),
                parent=operators.around(rows),
                kind=schema.text(annotates, ["operator", "annotation"]),
                end_ns=tree.end()[rows] + self.origin.base_ns,
                self_ns=tree.self_ns()[rows],
                step=operators.step()[rows],
                **self.context.of_ops(rows),
            )

    def _runtime_calls(self) -> Chunks:
        launches, ordered = self.launches, Ordered(self.launches.recorded)
        table = self._table("runtime_calls", ordered.table)
        for part in slices(ordered.count):
            rows = ordered.rows(part)
            op, step = launches.op()[rows], launches.step()[rows]
            yield table.chunk(ordered.select(part), op=op, step=step)

    def _collectives(self) -> Chunks:
        columns, _ = self._communication
        yield self.origin.table("collectives", len(columns["collective"]), columns)

    @cached_property
    def _communication(self) -> tuple[dict[str, Any], DiskColumn]:
        return communication(self.work, self.groups, self.origin.base_ns)

    def _kernels(self) -> Chunks:
        work, context = self.work, self.context.of_work(self.work)
        table = self._table("kernels", work.ordered.table)
        _, carried_out = self._communication
        for part in slices(work.count):
            yield table.chunk(
                work.ordered.select(part),
                kind=work.kind.of(part),
                op=work.op()[part],
                step=work.step()[part],
                copy_kind=work.copy_kind.of(part),
                collective=carried_out()[part],
                **{name: column.of(part) for name, column in context.items()},
            )

    def _annotations(self) -> Chunks:
        operators, ops = self.operators, self.operators.recorded
        by_part = (operators.rows[part] for part in slices(ops.count))
        rows = np.concatenate([part[operators.annotates()[part]] for part in by_part])
        host, device = ops.select(rows), Ordered(self.gathered.columns("annotations"))
        names = Occurring(self.gathered.names, chain([host["name"]], device.table.each("name")))
        yield self._table("annotations", ops).chunk(
            host,
            kind=schema.text(np.zeros(len(rows), dtype=np.int32), ["host"]),
            name=names.of(host["name"]),
            op=operators.index[rows],
            step=operators.step()[rows],
        )
        table = self._table("annotations", device.table)
        op_rows = first_with(ops, "external", device.column("external"))
        for part in slices(device.count):
            columns, row = device.select(part), op_rows()[part]
            yield table.chunk(
                columns,
                kind=schema.text(np.zeros(len(row), dtype=np.int32), ["device"]),
                name=names.of(columns["name"]),
                op=at_or(operators.index, row),
                step=at_or(operators.step(), row, self.steps.device.at(columns["start"])),
            )

    def _kernel_metrics(self) -> Chunks:
        counters = self.gathered.columns("kernel_metrics")
        rows = counters.select(order_of(counters))
        yield self._table("kernel_metrics", counters).chunk(rows, **of_kernels(rows, self.launches))

    def _synchronisations(self) -> Chunks:
        launches, ordered = self.launches, Ordered(self.gathered.columns("synchronisations"))
        table, launching = self._table("synchronisations", ordered.table), launches.of(ordered)
        for part in slices(ordered.count):
            call = launching()[part]
            op, step = at_or(launches.op(), call), at_or(launches.step(), call)
            yield table.chunk(ordered.select(part), op=op, step=step)

    def _memory_events(self) -> Chunks:
        operators, ordered = self.operators, Ordered(self.gathered.columns("memory_events"))
        table, devices = self._table("memory_events", ordered.table), device_names(ordered.table)
        first = operators.recorded.count + self.launches.recorded.count
        for part in slices(ordered.count):
            rows, memory = ordered.rows(part), ordered.select(part)
            freed = (memory["size_bytes"] < 0).astype(np.int32)
            yield table.chunk(
                memory,
                device=devices.of(rows),
                op=operators.around(first + rows),
                step=self.steps.host.at(memory["start"]),
                action=schema.text(freed, ["alloc", "free"]),
            )


def _nothing(name: str) -> Chunks:
    yield schema.empty(name)
