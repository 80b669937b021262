"""Tables of a snapshot."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert.base import Raw
from profkit.convert.memory_snapshot.history import ACTIONS, FREE_COMPLETED, Ints, allocated_bytes
from profkit.convert.memory_snapshot.segments import ACTIVE, ALLOCATED
from profkit.convert.memory_snapshot.snapshot import Device, Snapshot
from profkit.tables import schema

Windows = Sequence[tuple[int, int]]
"""Start and end of each step, in unix ns."""


def tables(snapshot: Snapshot, raw: Raw, steps: Windows) -> dict[str, pa.Table]:
    """Return all tables of one snapshot; `steps` are the windows that the harness timed."""
    texts = _Texts(snapshot)
    where = {"rank": raw.rank, "repeat": raw.repeat}
    made = {
        "allocations": [_allocations(device, texts, steps) for device in snapshot.devices],
        "memory_events": [_events(device, snapshot, steps) for device in snapshot.devices],
        "stacks": [_stacks(device, texts) for device in snapshot.devices],
        "segments": [_segments(snapshot, texts)],
        "blocks": [_blocks(snapshot, texts)],
        "out_of_memory": [_out_of_memory(device, texts, steps) for device in snapshot.devices],
        "allocator_settings": [_settings(snapshot)],
    }
    return {name: _joined(name, parts, where) for name, parts in made.items()}


class _Texts:
    """The texts of the stacks, with that of `NONE` last."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.stack = schema.strings([*snapshot.stacks.folded(), ""])
        self.line = schema.strings([*snapshot.stacks.lines(), ""])

    def of(self, kind: str, numbers: Ints) -> pa.DictionaryArray:
        texts = getattr(self, kind)
        return _distinct(np.where(numbers < 0, len(texts) - 1, numbers), texts)


def _distinct(codes: NDArray[np.integer[Any]], texts: pa.Array) -> pa.DictionaryArray:
    # Two stacks may have the same line, and a dictionary holds each value once.
    unified = texts.dictionary_encode()
    indices = unified.indices.take(schema.numbers(codes, pa.int32()))
    return pa.DictionaryArray.from_arrays(indices, unified.dictionary)


def _joined(name: str, parts: Sequence[dict[str, Any]], where: dict[str, int]) -> pa.Table:
    rows = [schema.table(name, {**_repeated(where, part), **part}) for part in parts]
    whole = pa.concat_tables([schema.empty(name), *rows]).unify_dictionaries()
    if name == "allocations":
        at = whole.schema.get_field_index("allocation")
        number = schema.numbers(np.arange(len(whole)), pa.int64())
        return whole.set_column(at, whole.schema.field(at), number)
    return whole


def _repeated(where: dict[str, int], part: dict[str, Any]) -> dict[str, Any]:
    count = len(next(iter(part.values())))
    return {key: np.full(count, value) for key, value in where.items()}


def _same(text: str, count: int) -> pa.DictionaryArray:
    return schema.text(np.zeros(count, dtype=np.int32), [text])


def _step_at(time_ns: Ints, steps: Windows) -> NDArray[np.int32]:
    """Return the step of each time, -1 outside."""
    if not steps:
        return np.full(len(time_ns), -1, dtype=np.int32)
    starts, ends = (np.array(edges, dtype=np.int64) for edges in zip(*steps, strict=True))
    found = np.searchsorted(starts, time_ns, side="right") - 1
    inside = (found >= 0) & (time_ns < ends[np.maximum(found, 0)])
    return np.where(inside, found, -1).astype(np.int32)


def _allocations(device: Device, texts: _Texts, steps: Windows) -> dict[str, Any]:
    found, events = device.allocations, device.events
    started = found.start >= 0
    start_ns = _at_rows(events.time_ns, found.start)
    ranges = np.where(started, device.ranges.at(start_ns), 0)
    context = np.maximum(_at_rows(events.context, found.start), 0)
    return {
        "allocation": np.arange(len(found.start)),
        "device": _same(device.name, len(found.start)),
        "stream": _at_rows(events.stream, found.start),
        "address": found.address,
        "size_bytes": found.size_bytes,
        "start_ns": start_ns,
        "requested_ns": _at_rows(events.time_ns, found.requested),
        "end_ns": _at_rows(events.time_ns, found.end),
        "start_event": found.start,
        "end_event": found.end,
        "stack": texts.of("stack", found.stack),
        "line": texts.of("line", found.stack),
        "annotation": _distinct(ranges, schema.strings(device.ranges.name)),
        "context": _distinct(context, schema.strings(events.contexts)),
        "step": np.where(started, _step_at(start_ns, steps), -1),
    }


def _at_rows(column: Ints, rows: Ints) -> Ints:
    """Return `column` at `rows`, -1 where a row is -1."""
    if not len(column):
        return np.full(len(rows), -1, dtype=np.int64)
    return np.where(rows >= 0, column[rows], -1)


def _out_of_memory(device: Device, texts: _Texts, steps: Windows) -> dict[str, Any]:
    """Return the requests of one device that failed."""
    events = device.events
    rows = np.array(sorted(events.free_bytes), dtype=np.int64)
    return {
        "device": _same(device.name, len(rows)),
        "event": rows,
        "time_ns": events.time_ns[rows],
        "size_bytes": events.size_bytes[rows],
        "free_bytes": [events.free_bytes[row] for row in rows.tolist()],
        "stack": texts.of("stack", events.stack[rows]),
        "line": texts.of("line", events.stack[rows]),
        "step": _step_at(events.time_ns[rows], steps),
    }


def _settings(snapshot: Snapshot) -> dict[str, Any]:
    return {"name": list(snapshot.settings), "value": list(snapshot.settings.values())}


def _events(device: Device, snapshot: Snapshot, steps: Windows) -> dict[str, Any]:
    events = device.events
    count = len(events.action)
    reserving = events.reserved_change_bytes()
    last = sum(
        segment.size_bytes for segment in snapshot.segments if segment.device == events.device
    )
    sign = np.ones(len(ACTIONS), dtype=np.int64)
    sign[FREE_COMPLETED] = -1
    signed = np.where(reserving != 0, reserving, events.size_bytes * sign[events.action])
    return {
        "time_ns": events.time_ns,
        "tid": np.full(count, -1),
        "device": _same(device.name, count),
        "address": events.address,
        "size_bytes": signed,
        "allocated_bytes": allocated_bytes(count, device.allocations),
        # Backwards from the segments that are there at the end.
        "reserved_bytes": last - (reserving.sum() - np.cumsum(reserving)),
        "op": np.full(count, -1),
        "step": _step_at(events.time_ns, steps),
        "action": _distinct(events.action, schema.strings(ACTIONS)),
    }


def _stacks(device: Device, texts: _Texts) -> dict[str, Any]:
    numbers, counts, sizes = by_stack(device)
    return {
        "device": _same(device.name, len(numbers)),
        "stack": texts.of("stack", numbers),
        "allocations": counts,
        "size_bytes": sizes,
    }


def by_stack(device: Device) -> tuple[Ints, Ints, Ints]:
    """Return the stacks of a device with their allocations, and the bytes of these at the peak."""
    found = device.allocations
    numbers, inverse = np.unique(found.stack, return_inverse=True)
    at_peak = np.where(live_at_peak(device), found.size_bytes, 0)
    sizes = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sizes, inverse, at_peak)
    return numbers, np.bincount(inverse, minlength=len(numbers)), sizes


def live_at_peak(device: Device) -> NDArray[np.bool_]:
    """Say of each allocation whether it was live when most was allocated."""
    found, count = device.allocations, len(device.events.action)
    if not count:
        return found.end < 0
    peak = int(np.argmax(allocated_bytes(count, found)))
    return (found.start <= peak) & ((found.end < 0) | (found.end > peak))


def _segments(snapshot: Snapshot, texts: _Texts) -> dict[str, Any]:
    found = snapshot.segments
    return {
        "device": [f"{snapshot.kind}:{segment.device}" for segment in found],
        "address": [segment.address for segment in found],
        "stream": [segment.stream for segment in found],
        "kind": [segment.kind for segment in found],
        "pool": [segment.pool for segment in found],
        "expandable": [segment.expandable for segment in found],
        "size_bytes": [segment.size_bytes for segment in found],
        "allocated_bytes": [segment.bytes_in(ALLOCATED) for segment in found],
        "active_bytes": [segment.bytes_in(*ACTIVE) for segment in found],
        "stack": texts.of("stack", np.array([segment.stack for segment in found], dtype=np.int64)),
    }


def _blocks(snapshot: Snapshot, texts: _Texts) -> dict[str, Any]:
    pairs = [(segment, block) for segment in snapshot.segments for block in segment.blocks]
    stack = np.array([block.stack for _, block in pairs], dtype=np.int64)
    return {
        "device": [f"{snapshot.kind}:{segment.device}" for segment, _ in pairs],
        "segment": [segment.address for segment, _ in pairs],
        "address": [block.address for _, block in pairs],
        "size_bytes": [block.size_bytes for _, block in pairs],
        "requested_bytes": [block.requested_bytes for _, block in pairs],
        "state": [block.state for _, block in pairs],
        "stack": texts.of("stack", stack),
        "line": texts.of("line", stack),
    }
