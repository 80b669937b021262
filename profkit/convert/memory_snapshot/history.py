"""The history of one device in a snapshot, as columns, and the allocations in it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import and_, itemgetter, methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import LARGEST_BYTES, LATEST_NS
from profkit.convert.memory_snapshot.checked_values import LARGEST, all_texts, text, whole
from profkit.convert.memory_snapshot.segments import Block
from profkit.convert.memory_snapshot.stacks import NONE, Stacks

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "snapshot",
)
"""Actions of entries; any other counts as ``snapshot``, which changes nothing."""

ALLOC, FREE_REQUESTED, FREE_COMPLETED = range(3)
OOM = ACTIONS.index("oom")
_CODES = {name: code for code, name in enumerate(ACTIONS)}
_RESERVING = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_PART = 100_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Events:
    """Entries of one device, in order; all columns are of one length."""

    device: int
    action: NDArray[np.int8]
    """Index in `ACTIONS`."""
    address: Ints
    size_bytes: Ints
    stream: Ints
    time_ns: Ints
    """Unix time; -1 where the entry has none."""
    stack: Ints
    context: Ints
    """Index in `contexts`."""
    contexts: list[str]
    """Notes of compiled code or of the program; the first is "", for none."""
    free_bytes: dict[int, int]
    """What the device had free at each entry that ran out of memory, -1 if unknown."""
    unknown: Mapping[str | None, int]
    """Number of entries by an action that is not known."""

    def reserved_change_bytes(self) -> Ints:
        """Return by how many bytes each entry changes the memory reserved on the device."""
        factor = np.array([_RESERVING.get(name, 0) for name in ACTIONS], dtype=np.int64)
        return factor[self.action] * self.size_bytes


def events(device: int, trace: list[Mapping[str, Any]], stacks: Stacks) -> Events:
    """Return the entries of `trace`, which is emptied; raises KeyError or TypeError for others.

    Entries are dropped as they are read: as columns they take a twentieth of the memory.
    """
    contexts = {"": 0}
    unknown: Counter[str | None] = Counter()
    parts: list[tuple[NDArray[Any], ...]] = []
    free_bytes: dict[int, int] = {}
    for number, entries in enumerate(_emptied(trace)):
        parts.append(part := _part(entries, stacks, contexts, unknown))
        ran_out = np.flatnonzero(part[0] == OOM).tolist()
        free_bytes |= {number * _PART + at: _free_bytes(entries[at]) for at in ran_out}
    names = ("action", "address", "size_bytes", "stream", "time_ns", "stack", "context")
    columns = zip(*parts, strict=True) if parts else [[np.zeros(0, np.int64)]] * len(names)
    joined = dict(zip(names, map(np.concatenate, columns), strict=True))
    if joined["size_bytes"].sum(dtype=np.float64) > LARGEST:
        raise OverflowError("the sizes of its entries add up to more than 63 bits")
    return Events(
        device=device,
        contexts=list(contexts),
        free_bytes=free_bytes,
        unknown=dict(unknown),
        **joined,
    )


def _free_bytes(entry: Mapping[str, Any]) -> int:
    """Return what an entry says the device had free, -1 if nothing that can be."""
    found = whole(entry.get("device_free", -1))
    return found if 0 <= found <= LARGEST_BYTES else -1


def _emptied(trace: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the entries of `trace` a part at a time, and drop them from it."""
    for start in range(0, len(trace), _PART):
        part = trace[start : start + _PART]
        trace[start : start + _PART] = [{}] * len(part)
        yield part
    trace.clear()


def _part(
    entries: Sequence[Mapping[str, Any]],
    stacks: Stacks,
    contexts: dict[str, int],
    unknown: Counter[str | None],
) -> tuple[NDArray[Any], ...]:
    """Return the columns of some entries, in the order of `Events`.

    Iterators of C alone: a snapshot has ten million entries, and a Python call for each column
    of each would take several times as long as to read the file.
    """
    named = [*map(itemgetter("action"), entries)]
    all_texts(named)
    unknown.update(name for name in named if name not in _CODES)
    codes = map(_CODES.get, named, repeat(_CODES["snapshot"]))
    action = np.fromiter(codes, np.int8, len(entries))
    stack = np.full(len(entries), NONE, dtype=np.int64)
    with_stack = np.flatnonzero((action != FREE_REQUESTED) & (action != FREE_COMPLETED))
    stack[with_stack] = [stacks.number(entries[at].get("frames")) for at in with_stack.tolist()]
    return (
        action,
        _words(_values(entries, "addr", 0)),
        _sizes(map(itemgetter("size"), entries)),
        _words(_values(entries, "stream", 0)),
        _times_ns(_values(entries, "time_us", -1)),
        stack,
        _contexts(entries, contexts),
    )


def _values(entries: Sequence[Mapping[str, Any]], key: str, default: object) -> Iterator[Any]:
    return map(methodcaller("get", key, default), entries)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _wholes(values: Iterator[Any]) -> list[int]:
    """Return values that must all be whole numbers."""
    found = [*values]
    if others := {*map(type, found)} - {int}:
        raise TypeError(f"{others.pop().__name__} instead of a whole number")
    return found


def _words(values: Iterator[Any]) -> Ints:
    found = _wholes(values)
    if found and not -LARGEST <= min(found) <= max(found) <= 2 * LARGEST + 1:
        raise OverflowError("an address or a stream has 64 bits")
    return _ints(map(and_, found, repeat(LARGEST)))


def _sizes(values: Iterator[Any]) -> Ints:
    found = _ints(_wholes(values))
    if len(found) and not 0 <= found.min() <= found.max() <= LARGEST_BYTES:
        raise OverflowError(f"{found.min():,} to {found.max():,} bytes are no sizes of entries")
    return found


def _times_ns(values: Iterator[Any]) -> Ints:
    """Return times in us as ns; -1, for none, stays -1."""
    found = _ints(_wholes(values))
    if len(found) and found.max() > LATEST_NS // 1000:
        raise OverflowError(f"{found.max()} us is no time of an entry")
    return np.where(found < 0, -1, found * 1000)


def _contexts(entries: Sequence[Mapping[str, Any]], known: dict[str, int]) -> Ints:
    """Return for each entry the number of its note; new notes are added to `known`."""
    keys = ("user_metadata", "compile_context")
    columns = [[*_values(entries, key, "")] for key in keys]
    for column in columns:
        all_texts(column)
    notes = list(zip(*columns, strict=True))
    numbers = {pair: known.setdefault(_context(pair), len(known)) for pair in set(notes)}
    return _ints(map(numbers.__getitem__, notes))


def _context(notes: tuple[Any, Any]) -> str:
    return next((text(note) for note in notes if note and note != "N/A"), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocations:
    """Blocks that lived at some time of the window; all columns are of one length."""

    start: Ints
    """Entry that allocated it; -1 if it was live before the window."""
    requested: Ints
    """Entry that asked for it to be freed; -1 if none did."""
    end: Ints
    """Entry that freed it; -1 if it was live at the end."""
    address: Ints
    size_bytes: Ints
    stack: Ints
    """Index of the stack that allocated it; `NONE` if it was not recorded."""
    lost: int
    """Frees without a block, and blocks whose free the ring no longer held."""


def allocations(events: Events, live: Mapping[int, Block]) -> Allocations:
    """Pair allocations and frees; `live` are the blocks at the end, by address.

    The ring keeps the last entries only: a free without its allocation, and a block that is live
    at the end without one, were there before the window.
    """
    order = np.flatnonzero(events.action <= FREE_COMPLETED)
    order = order[np.lexsort((order, events.address[order]))]
    action, address = events.action[order], events.address[order]
    begins = action == ALLOC
    begins[:1] = True
    begins[1:] |= address[1:] != address[:-1]
    group = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    start = np.where(action[first] == ALLOC, order[first], -1)
    requested = _first_of(group, order, action == FREE_REQUESTED, len(first))
    end = _first_of(group, order, action == FREE_COMPLETED, len(first))
    found = Allocations(
        start=start,
        requested=requested,
        end=end,
        address=address[first],
        size_bytes=events.size_bytes[np.where(start >= 0, start, order[first])],
        stack=np.where(start >= 0, events.stack[start], NONE) if len(start) else start,
        lost=int(np.sum(action == FREE_COMPLETED) - np.sum(end >= 0)),
    )
    return _with_untouched(_closed(found), live)


def _first_of(group: Ints, order: Ints, chosen: NDArray[np.bool_], count: int) -> Ints:
    """Return the first chosen entry of each group, -1 where there is none."""
    found = np.full(count, -1, dtype=np.int64)
    # Backwards, so that the first one is written last.
    found[group[chosen][::-1]] = order[chosen][::-1]
    return found


def _closed(found: Allocations) -> Allocations:
    """End allocations without a free whose address was allocated again later."""
    again = np.zeros(len(found.start), dtype=bool)
    again[:-1] = found.address[1:] == found.address[:-1]
    lost = (found.end < 0) & again
    following = np.append(found.start[1:], -1)
    end = np.where(lost, following, found.end)
    return replace(found, end=end, lost=found.lost + int(lost.sum()))


def _with_untouched(found: Allocations, live: Mapping[int, Block]) -> Allocations:
    """Add the blocks that were live all the time and have no entry in the history.

    Those that the ring dropped still have their stack and requested bytes, as in the history.
    """
    known = set(found.address[found.end < 0].tolist())
    untouched = [block for address, block in live.items() if address not in known]
    none = np.full(len(untouched), -1, dtype=np.int64)
    return Allocations(
        start=np.append(found.start, none),
        requested=np.append(found.requested, none),
        end=np.append(found.end, none),
        address=np.append(found.address, _ints(block.address for block in untouched)),
        size_bytes=np.append(found.size_bytes, _ints(block.requested_bytes for block in untouched)),
        stack=np.append(found.stack, _ints(block.stack for block in untouched)),
        lost=found.lost,
    )


def allocated_bytes(count: int, found: Allocations, *, before: bool = True) -> Ints:
    """Return the allocated bytes after each of `count` entries.

    `before` counts blocks live before the window; without it this is the plain running sum.
    """
    old = found.start < 0
    base = int(found.size_bytes[old].sum()) if before else 0
    change = np.zeros(count, dtype=np.int64)
    np.add.at(change, found.start[~old], found.size_bytes[~old])
    freed = (found.end >= 0) & (before | ~old)
    np.subtract.at(change, found.end[freed], found.size_bytes[freed])
    return base + np.cumsum(change)
