"""Memory: events of allocators, blocks and segments, and what each line or module holds."""

from profkit.tables.columns import INT, OP, SMALL, STEP, TEXT, WHERE, table

TABLES = {
    "memory_events": table(
        "Allocations and frees that the profiler recorded, with running totals.",
        *WHERE,
        ("time_ns", INT, "Instant, in ns on the clock of the capture."),
        ("tid", INT, "Thread."),
        ("device", TEXT, "cpu, or type and index such as cuda:0."),
        ("address", INT, "Address of the block."),
        ("size_bytes", INT, "Bytes allocated; negative when freed."),
        ("allocated_bytes", INT, "Total allocated on the device after the event."),
        ("reserved_bytes", INT, "Total reserved by the allocator after the event."),
        OP,
        STEP,
        (
            "action",
            TEXT,
            (
                "alloc or free; in histories free_requested, free_completed, segment_alloc,"
                " segment_free, segment_map, segment_unmap, oom or snapshot."
            ),
        ),
    ),
    "allocations": table(
        "Blocks of device memory that the program held at some time, each from start to end.",
        *WHERE,
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
    "memory_lines": table(
        "Lines of functions with the device memory that they needed, each at its most.",
        *WHERE,
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
    "segments": table(
        "Pieces of device memory that the allocator held when the snapshot was taken.",
        *WHERE,
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
    "blocks": table(
        "Blocks that segments are cut into, end to end, when the snapshot was taken.",
        *WHERE,
        ("device", TEXT, "Type and index, such as cuda:0."),
        ("segment", INT, "Address of the segment."),
        ("address", INT, "Address of the block."),
        ("size_bytes", INT, "Bytes of the block."),
        ("requested_bytes", INT, "Bytes that were asked for; the allocator rounds up."),
        ("state", TEXT, "active_allocated, active_pending_free (awaiting a stream), inactive."),
        ("stack", TEXT, "Frames of who allocated it, from the root."),
        ("line", TEXT, "The innermost frame that is the user's own Python."),
    ),
    "out_of_memory": table(
        "Requests for device memory that the allocator could not fulfil.",
        *WHERE,
        ("device", TEXT, "Type and index, such as cuda:0."),
        ("event", INT, "Entry of the history; as in `allocations`."),
        ("time_ns", INT, "Instant, in unix ns; -1 if unknown."),
        ("size_bytes", INT, "Bytes that were asked for; 0 where they are not known."),
        ("free_bytes", INT, "Bytes that the device had free, for any process; -1 if unknown."),
        ("stack", TEXT, "Frames of who asked, from the root, separated by semicolons."),
        ("line", TEXT, "The innermost frame that is the user's own Python."),
        STEP,
    ),
    "allocator_settings": table(
        "Settings of PyTorch's allocator, such as those of PYTORCH_CUDA_ALLOC_CONF.",
        *WHERE,
        ("name", TEXT, "Name of the setting."),
        ("value", TEXT, "Its value, as Python writes it."),
    ),
    "layers": table(
        "What each module holds of each kind of memory at chosen instants, on this rank alone.",
        *WHERE,
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
}
