"""What an undamaged snapshot cannot say: of its segments, and of its history against them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from profkit.convert.memory_snapshot.history import (
    ACTIONS,
    ALLOC,
    FREE_COMPLETED,
    Allocations,
    Events,
    allocated_bytes,
)
from profkit.convert.memory_snapshot.segments import ACTIVE, ALLOCATED, IDLE, Segment
from profkit.core.formatting import agreeing

_NAMED = 3
_KINDS = ("small", "large", "")
_SEGMENT_ALLOC, _SEGMENT_FREE = map(ACTIONS.index, ("segment_alloc", "segment_free"))
_NO_STREAM = 1 << 57
"""Streams are small numbers or addresses of a process, which have fewer bits."""


def of_segments(found: Sequence[Segment]) -> Iterator[str]:
    """Yield what an undamaged snapshot cannot say of its segments."""
    wrong = [segment for segment in found if not segment.is_filled()]
    if wrong:
        yield agreeing(
            len(wrong),
            "{} segment[s] [is|are] not as large as [its|their] blocks together (the first is at"
            " {first:#x}): the file is damaged, or was edited.",
            first=wrong[0].address,
        )
    if count := sum(not segment.is_gapless() for segment in found):
        yield agreeing(
            count,
            "{} segment[s] [has|have] blocks that do not begin where the one before them ends.",
        )
    if count := sum(not segment.is_summed() for segment in found):
        yield agreeing(
            count, "{} segment[s] state[s|] other sums than those of [its|their] blocks."
        )
    if count := sum(segment.stream >= _NO_STREAM for segment in found):
        yield agreeing(
            count,
            "{} segment[s] [has|have] a stream that no allocator writes: the file is damaged.",
        )
    if unknown := sorted({segment.kind for segment in found} - {*_KINDS}):
        yield f"Segments of kinds that are not known: {', '.join(map(repr, unknown[:_NAMED]))}."
    held = [block for segment in found for block in segment.blocks if block.state == ALLOCATED]
    if less := sum(block.requested_bytes > block.size_bytes for block in held):
        yield agreeing(
            less, "{} block[s] [is|are] smaller than what was asked for: the file is damaged."
        )
    places = sorted((one.device, one.address, one.size_bytes) for one in found)
    pairs = pairwise(places)
    if over := sum(a == b and start + size > after for (a, start, size), (b, after, _) in pairs):
        yield agreeing(
            over, "{} segment[s] overlap[s|] the one before [it|them]: the file is damaged."
        )
    states = {block.state for segment in found for block in segment.blocks}
    if unknown := sorted(states - {*ACTIVE, IDLE}):
        names = ", ".join(map(repr, unknown[:_NAMED]))
        yield f"Blocks in states that are not known count neither as used nor as free: {names}."


def of_history(
    name: str, events: Events, found: Allocations, segments: Sequence[Segment]
) -> Iterator[str]:
    """Yield what the history of the device `name` says, and its blocks at the end do not."""
    yield from _of_entries(name, events, found, segments)
    if (events.time_ns[found.start[found.start >= 0]] < 0).any():
        return  # entries that came after the segments were read have no times
    blocks = [block for segment in segments for block in segment.blocks if block.state != IDLE]
    sizes = {block.address: block.size_bytes for block in blocks}
    kept = np.flatnonzero((found.start >= 0) & (found.requested < 0) & (found.end < 0))
    addresses = found.address[kept].tolist()
    if gone := sum(address not in sizes for address in addresses):
        yield agreeing(
            gone,
            "{} allocation[s] of {name} [was|were] never freed, and [is|are] in no block at the"
            " end: frees are missing.",
            name=name,
        )
    asked = zip(addresses, found.size_bytes[kept].tolist(), strict=True)
    if larger := sum(size > sizes.get(address, size) for address, size in asked):
        yield agreeing(
            larger,
            "{} allocation[s] of {name} [is|are] larger than the block[s] that [it lies|they"
            " lie] in.",
            name=name,
        )


def _of_entries(
    name: str, events: Events, found: Allocations, segments: Sequence[Segment]
) -> Iterator[str]:
    """Yield what the entries of the device `name` say against one another."""
    if count := int((events.stream >= _NO_STREAM).sum()):
        yield agreeing(
            count,
            "{} [entry|entries] of {name} [has|have] a stream that no allocator writes.",
            name=name,
        )
    freed = np.flatnonzero((found.start >= 0) & (found.end >= 0))
    start, end = found.start[freed], found.end[freed]
    differs = events.size_bytes[start] != events.size_bytes[end]
    if count := int((differs & (events.action[end] == FREE_COMPLETED)).sum()):
        yield agreeing(
            count,
            "{} free[s] of {name} [has|have] another size than [its|their] allocation.",
            name=name,
        )
    if count := _outside(events, segments):
        yield agreeing(count, "{} allocation[s] of {name} lie[s|] in no segment.", name=name)
    if count := _freed_otherwise(events):
        yield agreeing(
            count,
            "{} segment[s] of {name} give[s|] back more or less memory than [it|they] took.",
            name=name,
        )
    reserving = events.reserved_change_bytes()
    last = sum(segment.size_bytes for segment in segments)
    reserved = last - (reserving.sum() - np.cumsum(reserving))
    if count := int((allocated_bytes(len(reserved), found) > reserved).sum()):
        yield agreeing(
            count,
            "{} [entry|entries] of {name} leave[s|] more memory allocated than is reserved.",
            name=name,
        )


def _outside(events: Events, segments: Sequence[Segment]) -> int:
    """Return how many allocations lie in no segment that the file has, or had."""
    had = events.reserved_change_bytes() != 0
    starts = np.append(events.address[had], [segment.address for segment in segments])
    sizes = np.append(events.size_bytes[had], [segment.size_bytes for segment in segments])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate((starts + sizes)[order])
    allocated = events.address[events.action == ALLOC]
    at = np.searchsorted(starts, allocated, side="right") - 1
    return int(((at < 0) | (allocated >= ends[at])).sum()) if len(starts) else len(allocated)


def _freed_otherwise(events: Events) -> int:
    """Return how many segments are freed with another size than that of their allocation."""
    rows = np.flatnonzero((events.action == _SEGMENT_ALLOC) | (events.action == _SEGMENT_FREE))
    rows = rows[np.argsort(events.address[rows], kind="stable")]
    action, address, size = (c[rows] for c in (events.action, events.address, events.size_bytes))
    pairs = (action[:-1] == _SEGMENT_ALLOC) & (action[1:] == _SEGMENT_FREE)
    return int((pairs & (address[1:] == address[:-1]) & (size[1:] != size[:-1])).sum())
