"""What an undamaged snapshot cannot say: of its segments, and of its history against them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from profkit.convert.memory_snapshot.history import Allocations, Events
from profkit.convert.memory_snapshot.segments import ACTIVE, ALLOCATED, IDLE, Segment

_NAMED = 3


def of_segments(found: Sequence[Segment]) -> Iterator[str]:
    """Yield what an undamaged snapshot cannot say of its segments."""
    wrong = [segment for segment in found if not segment.is_filled()]
    if wrong:
        yield (
            f"{len(wrong):,} segments are not as large as their blocks together (the first is at"
            f" {wrong[0].address:#x}): the file is damaged, or was edited."
        )
    held = [block for segment in found for block in segment.blocks if block.state == ALLOCATED]
    if less := sum(block.requested_bytes > block.size_bytes for block in held):
        yield f"{less:,} blocks are smaller than what was asked for: the file is damaged."
    places = sorted((one.device, one.address, one.size_bytes) for one in found)
    pairs = pairwise(places)
    if over := sum(a == b and start + size > after for (a, start, size), (b, after, _) in pairs):
        yield f"{over:,} segments overlap the one before them: the file is damaged."
    states = {block.state for segment in found for block in segment.blocks}
    if unknown := sorted(states - {*ACTIVE, IDLE}):
        names = ", ".join(map(repr, unknown[:_NAMED]))
        yield f"Blocks in states that are not known count neither as used nor as free: {names}."


def of_history(
    name: str, events: Events, found: Allocations, segments: Sequence[Segment]
) -> Iterator[str]:
    """Yield what the history of the device `name` says, and its blocks at the end do not."""
    if (events.time_ns[found.start[found.start >= 0]] < 0).any():
        return  # entries that came after the segments were read have no times
    blocks = [block for segment in segments for block in segment.blocks if block.state != IDLE]
    sizes = {block.address: block.size_bytes for block in blocks}
    kept = np.flatnonzero((found.start >= 0) & (found.requested < 0) & (found.end < 0))
    addresses = found.address[kept].tolist()
    if gone := sum(address not in sizes for address in addresses):
        yield (
            f"{gone:,} allocations of {name} were never freed, and are in no block at the end:"
            " frees are missing."
        )
    asked = zip(addresses, found.size_bytes[kept].tolist(), strict=True)
    if larger := sum(size > sizes.get(address, size) for address, size in asked):
        yield f"{larger:,} allocations of {name} are larger than the blocks that they lie in."
