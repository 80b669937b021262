"""Segments of device memory when the snapshot was taken, cut into blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.convert.memory_snapshot.checked_values import (
    device_index,
    flag,
    size,
    text,
    whole,
    word,
)
from profkit.convert.memory_snapshot.stacks import Stacks

ALLOCATED = "active_allocated"
"""State of a block that the program holds."""

ACTIVE = (ALLOCATED, "active_pending_free", "active_awaiting_free")
IDLE = "inactive"


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
    allocated_bytes: int = -1
    """What the file says that `ALLOCATED` blocks take, -1 if it does not."""
    active_bytes: int = -1
    """The same of blocks in `ACTIVE` states."""

    def is_filled(self) -> bool:
        """Say whether its blocks fill it: of one that can grow, each part is a segment."""
        return sum(block.size_bytes for block in self.blocks) == self.size_bytes

    def is_summed(self) -> bool:
        """Say whether its blocks take what the file says of them."""
        stated = (self.allocated_bytes, self.active_bytes)
        taken = (self.bytes_in(ALLOCATED), self.bytes_in(*ACTIVE))
        return all(said in (-1, own) for said, own in zip(stated, taken, strict=True))

    def is_gapless(self) -> bool:
        """Say whether each of its blocks begins where the one before it ends."""
        places = [(block.address, block.address + block.size_bytes) for block in self.blocks]
        ends = [self.address, *(end for _, end in places)]
        return all(start == end for (start, _), end in zip(places, ends, strict=False))

    def bytes_in(self, *states: str) -> int:
        """Return the bytes of the blocks in one of `states`."""
        return sum(block.size_bytes for block in self.blocks if block.state in states)


def segments(entries: Sequence[Mapping[str, Any]], stacks: Stacks) -> list[Segment]:
    """Return the segments; raises KeyError or TypeError if `entries` are none."""
    return [_segment(entry, stacks) for entry in entries]


def _segment(entry: Mapping[str, Any], stacks: Stacks) -> Segment:
    address = word(entry["address"])
    pool = entry.get("segment_pool_id", ())
    return Segment(
        device=device_index(entry.get("device", 0)),
        address=address,
        size_bytes=size(entry["total_size"]),
        stream=word(entry.get("stream", 0)),
        kind=text(entry.get("segment_type", "")),
        pool=",".join(str(whole(part)) for part in pool),
        expandable=flag(entry["is_expandable"]) if "is_expandable" in entry else -1,
        stack=stacks.number(entry.get("frames")),
        blocks=tuple(_blocks(entry["blocks"], address, stacks)),
        allocated_bytes=size(entry["allocated_size"]) if "allocated_size" in entry else -1,
        active_bytes=size(entry["active_size"]) if "active_size" in entry else -1,
    )


def _blocks(entries: Sequence[Mapping[str, Any]], start: int, stacks: Stacks) -> Iterator[Block]:
    """Yield the blocks of a segment; those that state no address lie end to end from `start`."""
    for entry in entries:
        taken = size(entry["size"])
        # The oldest format has a history instead, newest first, and no addresses.
        history = entry.get("history") or [{}]
        frames = entry.get("frames", history[0].get("frames"))
        requested = entry.get("requested_size", history[0].get("real_size", taken))
        state = text(entry["state"])
        start = word(entry.get("address", start))
        yield Block(whole(start), taken, size(requested), state, stacks.number(frames))
        start += taken


def live_blocks(found: Sequence[Segment], device: int) -> dict[int, Block]:
    """Return the blocks of `device` that the program holds, by address."""
    return {
        block.address: block
        for segment in found
        if segment.device == device
        for block in segment.blocks
        if block.state == ALLOCATED
    }
