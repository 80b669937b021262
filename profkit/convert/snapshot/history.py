"""The history of one device in a snapshot, as columns, and the allocations that it tells of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.snapshot.stacks import NONE, Stacks, text

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
"""What an entry can be; any other counts as ``snapshot``, which changes nothing."""

ALLOC, FREE_REQUESTED, FREE_COMPLETED = range(3)
_CODES = {name: code for code, name in enumerate(ACTIONS)}
_RESERVING = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_ADDRESS = 2**63 - 1

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
    context: list[str]
    """What compiled code or the program said of itself; "" if nothing."""

    def reserved_change_bytes(self) -> Ints:
        """Return by how much each entry changes what the allocator holds of the device."""
        factor = np.array([_RESERVING.get(name, 0) for name in ACTIONS], dtype=np.int64)
        return factor[self.action] * self.size_bytes


def events(device: int, trace: Sequence[Mapping[str, Any]], stacks: Stacks) -> Events:
    """Return the entries of `trace`; raises KeyError or TypeError for what is no such list."""
    action = np.fromiter(
        (_CODES.get(each["action"], _CODES["snapshot"]) for each in trace), np.int8, len(trace)
    )
    telling = np.isin(action, [FREE_REQUESTED, FREE_COMPLETED], invert=True)
    return Events(
        device=device,
        action=action,
        address=_ints(each.get("addr", 0) & _ADDRESS for each in trace),
        size_bytes=_ints(map(itemgetter("size"), trace)),
        stream=_ints(each.get("stream", 0) & _ADDRESS for each in trace),
        time_ns=_ints(each.get("time_us", -1) for each in trace) * 1000,
        stack=_ints(
            stacks.number(each.get("frames")) if tells else NONE
            for each, tells in zip(trace, telling.tolist(), strict=True)
        ),
        context=[_context(each) for each in trace],
    )


def _ints(values: Any) -> Ints:
    return np.fromiter(values, np.int64)


def _context(entry: Mapping[str, Any]) -> str:
    said = (entry.get("user_metadata"), entry.get("compile_context"))
    return next((text(each) for each in said if each and each != "N/A"), "")


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
    lost: int
    """Frees without a block, and blocks whose free the ring no longer held."""


def allocations(events: Events, live: Mapping[int, int]) -> Allocations:
    """Pair allocations and frees; `live` are the sizes of the blocks at the end, by address.

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
        lost=int(np.sum(action == FREE_COMPLETED) - np.sum(end >= 0)),
    )
    return _with_standing(_closed(found), live)


def _first_of(group: Ints, order: Ints, chosen: NDArray[np.bool_], count: int) -> Ints:
    """Return the first chosen entry of each group, -1 where there is none."""
    found = np.full(count, -1, dtype=np.int64)
    # Backwards, so that the first one is what stays.
    found[group[chosen][::-1]] = order[chosen][::-1]
    return found


def _closed(found: Allocations) -> Allocations:
    """End what has no free, but whose address was allocated again later."""
    again = np.zeros(len(found.start), dtype=bool)
    again[:-1] = found.address[1:] == found.address[:-1]
    lost = (found.end < 0) & again
    following = np.append(found.start[1:], -1)
    return Allocations(
        start=found.start,
        requested=found.requested,
        end=np.where(lost, following, found.end),
        address=found.address,
        size_bytes=found.size_bytes,
        lost=found.lost + int(lost.sum()),
    )


def _with_standing(found: Allocations, live: Mapping[int, int]) -> Allocations:
    """Add the blocks that were live all the time, of which the history says nothing."""
    known = set(found.address[found.end < 0].tolist())
    standing = {address: size for address, size in live.items() if address not in known}
    none = np.full(len(standing), -1, dtype=np.int64)
    return Allocations(
        start=np.append(found.start, none),
        requested=np.append(found.requested, none),
        end=np.append(found.end, none),
        address=np.append(found.address, np.fromiter(standing, np.int64, len(standing))),
        size_bytes=np.append(
            found.size_bytes, np.fromiter(standing.values(), np.int64, len(standing))
        ),
        lost=found.lost,
    )


def allocated_bytes(count: int, found: Allocations, *, before: bool = True) -> Ints:
    """Return what is allocated after each of `count` entries.

    `before` counts what was live before the window; without it this is the plain running sum.
    """
    old = found.start < 0
    base = int(found.size_bytes[old].sum()) if before else 0
    change = np.zeros(count, dtype=np.int64)
    np.add.at(change, found.start[~old], found.size_bytes[~old])
    freed = (found.end >= 0) & (before | ~old)
    np.subtract.at(change, found.end[freed], found.size_bytes[freed])
    return base + np.cumsum(change)
