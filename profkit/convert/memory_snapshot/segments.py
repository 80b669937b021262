"""Segments of device memory when the snapshot was taken, cut into blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.convert.memory_snapshot.stacks import Stacks, text

ALLOCATED = "active_allocated"
"""State of a block that the program holds."""

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a segment."""

    address: int
    size_bytes: int
    requested_bytes: int
    """Bytes that the program requested; the allocator rounds up."""
    state: str
    stack: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of device memory that the allocator got from the driver."""

    device: int
    address: int
    size_bytes: int
    stream: int
    kind: str
    pool: str
    expandable: int
    stack: int
    blocks: tuple[Block, ...]

    def bytes_in(self, *states: str) -> int:
        """Return the bytes of the blocks in one of `states`."""
        return sum(block.size_bytes for block in self.blocks if block.state in states)


def segments(entries: Sequence[Mapping[str, Any]], stacks: Stacks) -> list[Segment]:
    """Return the segments; raises KeyError or TypeError if `entries` are none."""
    return [_segment(entry, stacks) for entry in entries]


def _segment(entry: Mapping[str, Any], stacks: Stacks) -> Segment:
    address = entry["address"] & _MOST
    pool = entry.get("segment_pool_id", ())
    return Segment(
        device=_whole(entry.get("device", 0)),
        address=address,
        size_bytes=_whole(entry["total_size"]),
        stream=entry.get("stream", 0) & _MOST,
        kind=text(entry.get("segment_type", "")),
        pool=text(",".join(map(str, pool))),
        expandable=int(entry.get("is_expandable", -1)),
        stack=stacks.number(entry.get("frames")),
        blocks=tuple(_blocks(entry["blocks"], address, stacks)),
    )


def _whole(number: Any) -> int:
    """Return a number as one that a table can hold; raises OverflowError for a larger one."""
    if not 0 <= number <= _MOST:
        raise OverflowError(f"{number!r} is no size, address or index")
    return int(number)


def _blocks(entries: Sequence[Mapping[str, Any]], start: int, stacks: Stacks) -> Iterator[Block]:
    """Yield the blocks of a segment, which lie end to end from `start`."""
    for entry in entries:
        size = _whole(entry["size"])
        # The oldest format has a history instead, newest first, and no addresses.
        history = entry.get("history") or [{}]
        frames = entry.get("frames", history[0].get("frames"))
        requested = entry.get("requested_size", history[0].get("real_size", size))
        state = text(entry["state"])
        yield Block(start, size, _whole(requested), state, stacks.number(frames))
        start += size


def live_blocks(found: Sequence[Segment], device: int) -> dict[int, Block]:
    """Return the blocks of `device` that the program holds, by address."""
    return {
        block.address: block
        for segment in found
        if segment.device == device
        for block in segment.blocks
        if block.state == ALLOCATED
    }
