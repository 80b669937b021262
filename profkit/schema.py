"""The tables that all stages agree on: names, columns, types, units and meaning.

Times are integer nanoseconds, sizes integer bytes, and the unit is in the name. Integers are
never null: -1 means unknown or none. Floats are NaN when unknown. Text is dictionary-coded and
arrives in pandas as a Categorical; unknown text is the empty string.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
_MODULE = (
    "module",
    TEXT,
    "nn.Modules around it (around the forward operator, if backward), as a path with semicolons.",
)
_PHASE = ("phase", TEXT, "forward, backward, optimizer or data; empty if unknown.")


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
            (
                "forward",
                INT,
                "`op` of the forward operator whose gradient this, or the row around it, computes.",
            ),
            _MODULE,
            _PHASE,
            ("stack", TEXT, "Python frames around it from the root, separated by semicolons."),
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
            ("graph", INT, "Id of the CUDA graph that it is part of; -1 if none."),
            ("graph_node", INT, "Id of its node in that graph."),
            ("collective", INT, "Row of `collectives` (its `collective`) that it carries out."),
            _MODULE,
            _PHASE,
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
        "os_calls": _table(
            "Calls of the operating system's libraries that took longer than a threshold.",
            *_WHERE,
            ("pid", INT, "Process: the rank's own, or one that it started."),
            ("tid", INT, "Thread."),
            ("name", TEXT, "Function, for example pthread_cond_wait."),
            *_WHEN,
            _STEP,
        ),
        "python_calls": _table(
            "Calls of Python functions and of nn.Modules, as a tree per thread.",
            *_WHERE,
            ("call", INT, "Index of this row within its rank and repeat, from 0."),
            ("caller", INT, "`call` of the enclosing row on the same thread; -1 for a root."),
            ("pid", INT, "Process."),
            ("tid", INT, "Thread."),
            ("name", TEXT, "file(line): function, or name and number of the module."),
            ("kind", TEXT, "function or module."),
            *_WHEN,
            _STEP,
            _MODULE,
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
            ("collective", INT, "Index of this row within its rank and repeat, from 0."),
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
            (
                "action",
                TEXT,
                (
                    "alloc or free; in histories free_requested, free_completed, segment_alloc,"
                    " segment_free, segment_map, segment_unmap, oom or snapshot."
                ),
            ),
        ),
        "allocations": _table(
            "Blocks of device memory that the program held at some time, each from start to end.",
            *_WHERE,
            ("allocation", INT, "Index of this row within its rank and repeat, from 0."),
            ("device", TEXT, "Type and index, such as cuda:0."),
            ("stream", INT, "Stream or queue that it was allocated for; -1 if unknown."),
            ("address", INT, "Address of the block."),
            ("size_bytes", INT, "Bytes that were asked for."),
            ("start_ns", INT, "Allocated, in unix ns; -1 if unknown or before the window."),
            ("requested_ns", INT, "Free asked for, in unix ns; -1 if unknown or never."),
            ("end_ns", INT, "Freed, in unix ns; -1 if unknown or live at the end."),
            ("start_event", INT, "Entry of the history; -1 if it was live before the window."),
            ("end_event", INT, "Entry of the history; -1 if it was live at the end."),
            ("stack", TEXT, "Frames of who allocated, from the root, separated by semicolons."),
            ("line", TEXT, "The innermost frame that is the user's own Python."),
            ("annotation", TEXT, "Innermost range of the program that was open."),
            ("context", TEXT, "What compiled code or the program said of itself."),
            ("step", SMALL, "Step in which it was allocated; -1 if outside."),
        ),
        "memory_lines": _table(
            "Lines of functions with the device memory that they needed, each at its most.",
            *_WHERE,
            ("device", TEXT, "Type and index, such as cuda:0."),
            ("function", TEXT, "Qualified name of the function."),
            ("file", TEXT, "Source file."),
            ("line", SMALL, "Number of the line in it, from 1."),
            ("code", TEXT, "Text of the line; empty if the file could not be read."),
            ("peak_bytes", INT, "Most memory in use while the line ran, all of the process."),
            ("reserved_peak_bytes", INT, "Most memory that the allocator held while it ran."),
            ("allocated_bytes", INT, "Bytes that the line allocated, freed again or not."),
            ("freed_bytes", INT, "Bytes that were freed while the line ran."),
        ),
        "segments": _table(
            "Pieces of device memory that the allocator held when the snapshot was taken.",
            *_WHERE,
            ("device", TEXT, "Type and index, such as cuda:0."),
            ("address", INT, "Address of the segment."),
            ("stream", INT, "Stream or queue."),
            ("kind", TEXT, "small or large: the allocator's pools."),
            ("pool", TEXT, "Private pool, for example of a CUDA graph; 0,0 is the common one."),
            ("expandable", SMALL, "1 if it can grow, 0 if not, -1 if unknown."),
            ("size_bytes", INT, "Bytes reserved."),
            ("allocated_bytes", INT, "Bytes of blocks that the program holds."),
            ("active_bytes", INT, "The same, and blocks whose free waits for a stream."),
            ("stack", TEXT, "Frames of who made it grow, from the root."),
        ),
        "blocks": _table(
            "Blocks that segments are cut into, end to end, when the snapshot was taken.",
            *_WHERE,
            ("device", TEXT, "Type and index, such as cuda:0."),
            ("segment", INT, "Address of the segment."),
            ("address", INT, "Address of the block."),
            ("size_bytes", INT, "Bytes of the block."),
            ("requested_bytes", INT, "Bytes that were asked for; the allocator rounds up."),
            ("state", TEXT, "active_allocated, active_pending_free (awaiting a stream), inactive."),
            ("stack", TEXT, "Frames of who allocated it, from the root."),
            ("line", TEXT, "The innermost frame that is the user's own Python."),
        ),
        "layers": _table(
            "What each module holds of each kind of memory at chosen instants, on this rank alone.",
            *_WHERE,
            ("step", SMALL, "Step; -1 before the first."),
            (
                "point",
                TEXT,
                (
                    "set_up (before the first step), forward (before the backward pass), backward"
                    " (before the optimizer's step) or optimizer (at the end of the step)."
                ),
            ),
            ("time_ns", INT, "Instant, in unix ns."),
            ("model", TEXT, "Outermost module, by its class; empty if it belongs to none."),
            ("module", TEXT, "Path in the model, names joined by dots; empty for all of it."),
            ("module_class", TEXT, "Class of the module."),
            (
                "kind",
                TEXT,
                (
                    "parameters, gathered (whole ones that a shard is kept of besides), masters,"
                    " gradients, states, buffers, buckets (for communication), activations (what"
                    " autograd saves), kept (parts of storages that no tensor covers), other"
                    " tensors, rest (of what CUDA's allocator has given out), cache (that it keeps"
                    " for later)."
                ),
            ),
            ("device", TEXT, "cpu, or type and index such as cuda:0."),
            ("dtype", TEXT, "Type of an element, in the words of torch; empty if there is none."),
            ("size_bytes", INT, "Bytes, each counted for the first that has it."),
            ("tensors", INT, "Tensors that they belong to."),
            ("elements", INT, "Of parameters: elements on all ranks together; else 0."),
        ),
        "kernel_metrics": _table(
            "Hardware counters and what follows from them: one row per measured kernel and metric.",
            *_WHERE,
            ("kernel", INT, "Index of the measured kernel in its rank and repeat, by launch."),
            ("correlation", INT, "Id shared with its row of `kernels`; -1 if the tool gives none."),
            _OP,
            ("name", TEXT, "Kernel, as recorded."),
            ("metric", TEXT, "Name of the metric, in the words of the tool."),
            ("value", FLOAT, "Value, in `unit`."),
            ("unit", TEXT, "Unit in the words of the tool; empty for a plain number."),
            ("text", TEXT, "Value of a metric that is a word, whose number is NaN; else empty."),
        ),
        "measured_kernels": _table(
            "Launches that a kernel profiler ran again to read counters, in order of launch.",
            *_WHERE,
            ("kernel", INT, "Index of this row within its rank and repeat, from 0."),
            ("launch", INT, "Number that the tool gives it in its process; -1 if it gives none."),
            ("pid", INT, "Process; -1 if unknown."),
            ("function", TEXT, "Name of the function alone, without namespace and parameters."),
            ("name", TEXT, "Kernel, demangled, with template arguments and parameters."),
            ("device", SMALL, "Index of the device."),
            ("device_name", TEXT, "Name that the driver gives the device; empty if not stated."),
            ("capability", TEXT, "Compute capability, such as 8.0."),
            ("stream", INT, "Stream, as the tool counts them."),
            ("grid", TEXT, "Grid of the launch as a JSON list; empty if unknown."),
            ("block", TEXT, "Block of the launch as a JSON list; empty if unknown."),
            ("ranges", TEXT, "NVTX ranges around the launch, as a path with semicolons."),
        ),
        "kernel_advice": _table(
            "What the rules of a kernel profiler say of each launch that it measured.",
            *_WHERE,
            ("kernel", INT, "Row of `measured_kernels` (its `kernel`) that it is about."),
            ("section", TEXT, "Section of the report, as the tool identifies it."),
            ("rule", TEXT, "Rule, as the tool identifies it."),
            ("kind", TEXT, "optimisation, warning, error, or information."),
            ("title", TEXT, "Heading of the message; empty if it has none."),
            ("message", TEXT, "What the rule says, without the tool's links."),
            ("speedup_percent", FLOAT, "Estimated gain, 0 to 100."),
            ("speedup_scope", TEXT, "global: of the launch; local: of the part it is about."),
        ),
        "samples": _table(
            "Readings of sensors and counters at instants: of devices, of hosts, of processes.",
            *_WHERE,
            ("time_ns", INT, "Instant, in ns on the clock of the capture."),
            ("device", TEXT, "gpu and NVML's index of it; host for the machine; process."),
            ("metric", TEXT, "What was read, in the words of the tool."),
            ("kind", TEXT, "level, or counter: counts up, only differences mean anything."),
            ("value", FLOAT, "Value, in `unit`."),
            ("unit", TEXT, "Unit: percent, bytes, bytes_per_s, w, j, s, mhz, c, count."),
            ("step", SMALL, "Step in which it was read; -1 if outside."),
        ),
        "benchmarks": _table(
            "Parts of a step that were timed by themselves: one row per measurement.",
            *_WHERE,
            ("part", TEXT, "forward, backward, optimizer, or step for all of it."),
            ("measurement", SMALL, "Index of the measurement of this part, from 0."),
            ("calls", INT, "Calls that were timed together."),
            ("call_ns", FLOAT, "Mean time of one of them."),
            ("threads", SMALL, "Threads that an operator may use on the host."),
            ("device", TEXT, "cpu or cuda: whether the end of the device's work was awaited."),
        ),
        "synchronisations": _table(
            "Waits for streams and events, as CUPTI records them: of the host or of a stream.",
            *_WHERE,
            ("device", SMALL, "Index of the device."),
            ("stream", INT, "Stream that waits, or that the host waits for; -1 for all."),
            ("name", TEXT, "Stream Sync, Event Sync, Context Sync or Stream Wait Event."),
            *_WHEN,
            ("correlation", INT, "Id shared with the runtime call that asked for it."),
            ("awaited_stream", INT, "Stream on which the awaited event was recorded; -1 if none."),
            ("awaited_correlation", INT, "Correlation of the call that recorded that event."),
            _OP,
            _STEP,
        ),
        "stacks": _table(
            "Call stacks, summed over equal stacks: of sampled threads, or of allocations.",
            *_WHERE,
            ("thread", TEXT, "Thread, as the sampler names it; the device, of allocations."),
            ("stack", TEXT, "Frames from the root, separated by semicolons."),
            ("samples", INT, "Number of samples or of allocations."),
            ("duration_ns", INT, "Time that the samples stand for; -1 of allocations."),
            ("size_bytes", INT, "Bytes of it that were live at the peak; -1 of samples."),
        ),
    }
)


TIMELINE = ("cpu_ops", "runtime_calls", "kernels", "memory_events", "collectives")
"""Tables that a timeline is drawn from: a tool that makes them all has one."""


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
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return numbers(values, kind)
    return pa.array(values, type=kind)


def numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers as an Arrow array; raises `OverflowError` where one does not fit `kind`.

    Memory is shared where the type is the same. `pyarrow.array` would do as well, but it imports
    pandas, which takes longer than to convert a small trace.
    """
    own = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    if own.dtype != values.dtype and not np.array_equal(own, values, equal_nan=True):
        raise OverflowError(f"numbers that are no {kind}")
    return pa.Array.from_buffers(kind, len(own), [None, pa.py_buffer(own)])


def text(codes: NDArray[Any], values: Sequence[str]) -> pa.DictionaryArray:
    """Return texts by their position in `values`, one for each of `codes`."""
    return coded(codes, strings(values))


def strings(values: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array; `pyarrow.array` would import pandas."""
    encoded = [each.encode() for each in values]
    ends = numbers(np.cumsum([0, *map(len, encoded)]), pa.int32())
    buffers = [None, ends.buffers()[1], pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def coded(codes: NDArray[Any], dictionary: pa.StringArray) -> pa.DictionaryArray:
    """Return texts by their position in `dictionary`, which chunks of a column may share."""
    return pa.DictionaryArray.from_arrays(numbers(codes, pa.int32()), dictionary)


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
