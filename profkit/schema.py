"""The tables that all stages agree on: names, columns, types, units and meaning.

Times are integer nanoseconds, sizes integer bytes, and the unit is in the name. Integers are
never null: -1 means unknown or none. Floats are NaN when unknown. Text is dictionary-coded and
arrives in pandas as a Categorical; unknown text is the empty string.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

TEXT = pa.dictionary(pa.int32(), pa.string())
INT = pa.int64()
SMALL = pa.int32()
FLOAT = pa.float64()

_WHERE = (
    ("rank", SMALL, "Global rank of the process."),
    ("repeat", SMALL, "Repeat of the capture, from 0."),
)
_WHEN = (
    ("start_ns", INT, "Start, in ns on the clock of the capture."),
    ("end_ns", INT, "End, in ns on the same clock."),
)
_OP = ("op", INT, "Row of `cpu_ops` (its `op`) that encloses or launched this; -1 if none.")
_STEP = ("step", SMALL, "Step in which it was launched (device work) or started; -1 if outside.")


def _table(doc: str, *columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"doc": text}) for name, kind, text in columns]
    return pa.schema(fields, metadata={"doc": doc})


TABLES: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "steps": _table(
            "One row per rank, repeat and training or inference step.",
            *_WHERE,
            ("step", SMALL, "Index of the step, from 0 at the start of the workload."),
            *_WHEN,
            ("samples", INT, "Samples this rank processed in the step."),
            ("peak_memory_bytes", INT, "Peak of the process so far: device if CUDA, else host."),
        ),
        "cpu_ops": _table(
            "Operators and annotations on host threads, as a tree per thread.",
            *_WHERE,
            ("op", INT, "Index of this row within its rank and repeat, from 0."),
            ("parent", INT, "`op` of the enclosing row on the same thread; -1 for a root."),
            ("pid", INT, "Process."),
            ("tid", INT, "Thread."),
            ("name", TEXT, "Operator or annotation, as recorded."),
            ("kind", TEXT, "operator or annotation."),
            *_WHEN,
            ("self_ns", INT, "Time not covered by children or by runtime calls of its own."),
            _STEP,
            ("sequence", INT, "Autograd sequence number; -1 if none."),
            ("forward_tid", INT, "Thread of the forward operator, on backward operators."),
            ("external", INT, "External id that ties device work to this operator."),
            ("input_shapes", TEXT, "Shapes of the inputs as a JSON list; empty if not recorded."),
            ("input_types", TEXT, "Data types of the inputs as a JSON list."),
            ("inputs", TEXT, "Concrete values of scalar inputs as a JSON list."),
        ),
        "kernels": _table(
            "Work on devices: compute and communication kernels, copies and sets.",
            *_WHERE,
            ("device", SMALL, "Index of the device."),
            ("stream", INT, "Stream or queue."),
            ("name", TEXT, "Kernel, as recorded."),
            ("kind", TEXT, "compute, communication, copy or set."),
            *_WHEN,
            ("correlation", INT, "Id shared with the runtime call that launched it."),
            _OP,
            _STEP,
            ("size_bytes", INT, "Bytes moved or set, for copies and sets."),
            ("copy_kind", TEXT, "Direction of a copy: HtoD, DtoH, DtoD or PtoP, when known."),
            ("grid", TEXT, "Grid of a launch as a JSON list."),
            ("block", TEXT, "Block of a launch as a JSON list."),
            ("registers", SMALL, "Registers per thread."),
            ("shared_memory_bytes", INT, "Shared memory per block."),
            ("blocks_per_sm", FLOAT, "Blocks per streaming multiprocessor."),
            ("warps_per_sm", FLOAT, "Warps per streaming multiprocessor."),
            ("occupancy_percent", FLOAT, "Estimated achieved occupancy, 0 to 100."),
        ),
        "devices": _table(
            "Devices that a process could see, as the tool describes them.",
            *_WHERE,
            ("device", SMALL, "Index of the device."),
            ("name", TEXT, "Name that the driver gives it."),
            ("capability", TEXT, "Compute capability, such as 8.0."),
            ("memory_bytes", INT, "Its memory."),
            ("processors", SMALL, "Streaming multiprocessors or compute units."),
            ("threads_per_processor", SMALL, "Threads that may reside on one of them."),
            ("warp_threads", SMALL, "Threads of a warp or wavefront."),
            ("registers_per_processor", INT, "Registers of one processor."),
            ("shared_memory_bytes", INT, "Shared memory of one processor."),
        ),
        "runtime_calls": _table(
            "Calls of the CUDA or HIP runtime and driver on host threads.",
            *_WHERE,
            ("tid", INT, "Thread."),
            ("name", TEXT, "Function, for example cudaLaunchKernel."),
            *_WHEN,
            ("correlation", INT, "Id shared with the device work that it started."),
            _OP,
            _STEP,
        ),
        "annotations": _table(
            "Ranges named by the program: phases, steps, record_function, NVTX.",
            *_WHERE,
            ("kind", TEXT, "host, or device for the span of the work launched inside."),
            ("tid", INT, "Thread (host) or stream (device)."),
            ("name", TEXT, "Text of the range."),
            *_WHEN,
            _OP,
            _STEP,
        ),
        "collectives": _table(
            "Communication calls: one row per communication kernel, or per call that a host made.",
            *_WHERE,
            ("collective", INT, "Index of this row within its trace, by start, from 0."),
            ("kind", TEXT, "device, or host where no device takes part (gloo, MPI)."),
            (
                "operation",
                TEXT,
                "allreduce, allgather, alltoall, broadcast, send...; empty if unknown.",
            ),
            ("name", TEXT, "Kernel, or range on the host, as recorded."),
            ("group", TEXT, "Name of the process group."),
            ("group_description", TEXT, "What the program calls the group."),
            (
                "group_ranks",
                TEXT,
                "Global ranks of the group as a JSON list; long ones end in dots.",
            ),
            ("group_size", SMALL, "Ranks in the group."),
            ("in_elements", INT, "Elements that this rank gives."),
            ("out_elements", INT, "Elements that this rank gets."),
            ("dtype", TEXT, "Type of an element, in the words of torch: float32, bfloat16..."),
            ("size_bytes", INT, "The larger of input and output, as NCCL's benchmarks count."),
            *_WHEN,
            ("call_ns", INT, "Start of the host's call that launched it or asked for it."),
            ("correlation", INT, "Id shared with its row of `kernels`."),
            _OP,
            _STEP,
        ),
        "memory_events": _table(
            "Allocations and frees that the profiler recorded, with running totals.",
            *_WHERE,
            ("time_ns", INT, "Instant, in ns on the clock of the capture."),
            ("tid", INT, "Thread."),
            ("device", TEXT, "cpu, or type and index such as cuda:0."),
            ("address", INT, "Address of the block."),
            ("size_bytes", INT, "Bytes allocated; negative when freed."),
            ("allocated_bytes", INT, "Total allocated on the device after the event."),
            ("reserved_bytes", INT, "Total reserved by the allocator after the event."),
            _OP,
            _STEP,
        ),
        "stacks": _table(
            "Sampled call stacks, summed over equal stacks of one thread.",
            *_WHERE,
            ("thread", TEXT, "Thread, as the sampler names it."),
            ("stack", TEXT, "Frames from the root, separated by semicolons."),
            ("samples", INT, "Number of samples."),
            ("duration_ns", INT, "Time that the samples stand for."),
        ),
    }
)


def table(name: str, columns: Mapping[str, Sequence[Any] | Any]) -> pa.Table:
    """Return `columns` as table `name`, with its columns in order and of its types.

    Raises KeyError if a column of the table is missing.
    """
    schema = TABLES[name]
    arrays = [_coded(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _coded(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind) if values.type != kind else values
    if pa.types.is_dictionary(kind):
        return pa.array(values, type=kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, type=kind)


def empty(name: str) -> pa.Table:
    """Return table `name` without rows."""
    return TABLES[name].empty_table()


def frame(name: str, rows: Iterable[Mapping[str, Any]] = ()) -> "pd.DataFrame":
    """Return `rows` as the pandas table `name`; columns left out are unknown (-1, NaN or "")."""
    schema = TABLES[name]
    given = list(rows)
    for row in given:
        if unknown := set(row) - set(schema.names):
            raise KeyError(f"table {name!r} has no column {sorted(unknown)}")
    columns = {
        field.name: [row.get(field.name, _unknown(field.type)) for row in given] for field in schema
    }
    made: pd.DataFrame = table(name, columns).to_pandas()
    return made


def _unknown(kind: pa.DataType) -> str | float | int:
    if pa.types.is_dictionary(kind):
        return ""
    return float("nan") if pa.types.is_floating(kind) else -1
