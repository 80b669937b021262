"""Snapshots of PyTorch's device allocator, of every version, as columns and tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from profkit.convert.memory_snapshot import pickles
from profkit.convert.memory_snapshot.annotations import Ranges
from profkit.convert.memory_snapshot.checked_values import (
    REPLACEMENT,
    any_text,
    device_index,
    text,
    whole,
)
from profkit.convert.memory_snapshot.contradictions import of_history, of_segments
from profkit.convert.memory_snapshot.history import Allocations, Events, Ints, allocations, events
from profkit.convert.memory_snapshot.segments import Segment, live_blocks, segments
from profkit.convert.memory_snapshot.stacks import NONE, Stacks
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing
from profkit.process.malloc import uncollected

_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)
_NAMED = 3
_HINT = "give the pickle that torch.cuda.memory._dump_snapshot wrote"


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device of a snapshot."""

    name: str
    """Type and index, such as ``cuda:0``."""
    events: Events
    allocations: Allocations
    ranges: Ranges


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The memory of one process's devices."""

    segments: list[Segment]
    devices: list[Device]
    """Those that have segments or a history."""
    stacks: Stacks
    kind: str
    """Type of its devices: cuda, or cpu for a snapshot that stands in for one."""
    max_entries: int
    """Entries that the ring holds, 0 if the snapshot does not say."""
    settings: dict[str, str]
    """Settings of the allocator, as text; empty if the snapshot has none."""
    notes: tuple[str, ...]


def read(path: Path) -> Snapshot:
    """Read the snapshot at `path`; raises `InputError` if it is damaged or something else."""
    with uncollected():
        return from_content(path, pickles.load(path))


def from_content(path: Path, content: Any) -> Snapshot:
    """Return the snapshot in the plain data `content` of the file at `path`.

    The history in `content` is emptied on the way: as columns it takes a twentieth of the memory.
    """
    # torch.cuda.memory_snapshot() gives the segments alone.
    are_segments = isinstance(content, list) and all(isinstance(one, dict) for one in content)
    document = {"segments": content} if are_segments else content
    if not isinstance(document, dict) or not isinstance(document.get("segments"), list):
        raise InputError(f"{path}: {_kind_of(content)}, not a memory snapshot", hint=_HINT)
    stacks = Stacks()
    try:
        found = segments(document["segments"], stacks)
        traces = document.get("device_traces") or []
        ranges = Ranges.of(document.get("external_annotations") or [])
        kind = text(document.get("profkit_device", "cuda"))
        entries = whole(document.get("profkit_max_entries", 0))
        settings = document.get("allocator_settings") or {}
        named = {text(name): any_text(value) for name, value in settings.items()}
        devices = list(_devices(kind, found, traces, ranges, stacks))
    except _WRONG as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"{path}: not a memory snapshot: {reason}", hint=_HINT) from None
    return Snapshot(
        segments=found,
        devices=devices,
        stacks=stacks,
        kind=kind,
        max_entries=entries,
        settings=named,
        notes=(*_notes(found, devices, entries), *_unreadable(devices, stacks), *_twice(document)),
    )


def _devices(
    kind: str,
    found: Sequence[Segment],
    traces: list[list[Mapping[str, Any]]],
    ranges: Mapping[int, Ranges],
    stacks: Stacks,
) -> Any:
    if len({*map(id, traces)}) < len(traces):
        raise ValueError("several devices have one and the same history")
    histories = {index: trace for index, trace in enumerate(traces) if trace}
    for index in sorted({device_index(index) for index in histories} | {s.device for s in found}):
        trace = histories.get(index, [])
        history = events(index, trace, stacks)
        yield Device(
            name=f"{kind}:{index}",
            events=history,
            allocations=allocations(history, live_blocks(found, index)),
            ranges=ranges.get(index, Ranges()),
        )


def _notes(found: Sequence[Segment], devices: Sequence[Device], entries: int) -> Iterator[str]:
    yield from of_segments(found)
    for device in devices:
        yield from _begun_late(device, entries)
        yield from _doubtful(device)
        own = [segment for segment in found if segment.device == device.events.device]
        yield from of_history(device.name, device.events, device.allocations, own)
    if not found and not devices:
        yield "The snapshot is empty: the process had no memory on a device."


def _begun_late(device: Device, entries: int) -> Iterator[str]:
    """Yield what the history lacks of what happened."""
    history, blocks = device.events, device.allocations
    count, before = len(history.action), int((blocks.start < 0).sum())
    unknown = int(((blocks.start < 0) & (blocks.stack == NONE)).sum())
    if not count:
        yield f"No history of {device.name} was recorded: only its last state is known."
    elif not (blocks.start >= 0).any():
        yield f"The history of {device.name} has no allocation: its peak is not known."
    elif entries and count >= entries:
        yield f"The ring of {entries:,} entries was full: {device.name}'s history begins late."
    if count and unknown:
        size = int(blocks.size_bytes[blocks.start < 0].sum())
        yield agreeing(
            before,
            "{} block[s] of {name} ({size:,} bytes) [was|were] live before the history begins; what"
            " allocated {some}[it|them] was not recorded.",
            name=device.name,
            size=size,
            some="" if unknown == before else f"{unknown:,} of ",
        )
    if (late := history.size_bytes[_after_window(device)]).size:
        yield agreeing(
            late.size,
            "{} block[s] of {name} ({size:,} bytes) came after the window, before memory ran out;"
            " what allocated [it|them] was not recorded.",
            name=device.name,
            size=int(late.sum()),
        )
    if blocks.lost:
        yield agreeing(
            blocks.lost,
            "{} [free or allocation|frees or allocations] of {name} [has|have] no partner.",
            name=device.name,
        )


def _doubtful(device: Device) -> Iterator[str]:
    """Yield what no allocator records."""
    history, times = device.events, device.events.time_ns
    if backwards := int((np.diff(times[times >= 0]) < 0).sum()):
        yield agreeing(
            backwards,
            "{} [entry|entries] of {name} [is|are] earlier than the one before [it|them].",
            name=device.name,
        )
    timeless = int((times < 0).sum()) if (device.allocations.start >= 0).any() else 0
    if timeless and timeless == len(times):
        yield f"The history of {device.name} has no times: entries stand in their order only."
    elif timeless and not _after_window(device).size:
        yield agreeing(
            timeless, "{} [entry|entries] of {name} [has|have] no time.", name=device.name
        )
    if history.unknown:
        yield agreeing(
            sum(history.unknown.values()),
            "{} [entry|entries] of {name} [has an action that is|have actions that are] not known,"
            " and change[s|] nothing: {actions}.",
            name=device.name,
            actions=", ".join(map(repr, list(history.unknown)[:_NAMED])),
        )


def _unreadable(devices: Sequence[Device], stacks: Stacks) -> Iterator[str]:
    """Yield how many texts hold half of a character, which nothing can show."""
    texts = {part for stack in stacks.known for frame in stack for part in (frame[0], frame[2])}
    for device in devices:
        texts.update(device.events.contexts, device.ranges.name)
    if count := sum(REPLACEMENT in text for text in texts):
        yield agreeing(count, f"{{}} text[s] hold[s|] what is no UTF-8, shown as {REPLACEMENT}.")


def _twice(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many edges of ranges stand there twice, or are none."""
    edges = [
        (edge["time_us"], edge["stage"], edge["name"], edge.get("device"))
        for edge in document.get("external_annotations") or []
    ]
    if count := len(edges) - len({*edges}):
        yield agreeing(count, "{} annotation[s] stand[s|] in the file twice.")
    if count := sum(stage not in {"START", "END"} for _, stage, *_ in edges):
        yield agreeing(
            count,
            "{} annotation[s] neither start[s|] nor end[s|] a range: counted as [an end|ends].",
        )


def _after_window(device: Device) -> Ints:
    """Return the entries that allocate without a time in a history that has times otherwise."""
    history, blocks = device.events, device.allocations
    if (history.time_ns < 0).all():
        return np.empty(0, np.int64)
    starts = blocks.start[blocks.start >= 0]
    return starts[history.time_ns[starts] < 0]


def _kind_of(content: Any) -> str:
    if isinstance(content, dict):
        keys = ", ".join(sorted(map(str, content))[:5])
        return f"a pickled dict with the keys {keys or '(none)'}"
    return f"a pickled {type(content).__name__}"
