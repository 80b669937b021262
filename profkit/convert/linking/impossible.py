"""Values that no GPU and no allocator can have, or that contradict others: counted, and said."""

import json
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from profkit.convert.columns.on_disk import Columns
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.messages import Message, count_of
from profkit.core.formatting import agreeing

_LARGEST = {"registers": 512, "shared_memory_bytes": 1 << 20, "occupancy_percent": 100}
"""Of AMD's GPUs a thread has up to 512 registers; others have less of everything."""
_MOST_THREADS = 1024
_BYTES_PER_NS = 100_000
"""Ten times what the memory of any GPU moves."""
_NAMED = 3
_CPU = 0


def impossible(work: DeviceWork) -> Iterator[str]:
    """Yield a sentence for each kind of value that is impossible in one recording."""
    gathered = work.gathered
    kernels = gathered.columns("kernels")
    for name, largest in _LARGEST.items():
        if count := sum(int((part > largest).sum()) for part in kernels.each(name)):
            words = name.replace("_", " ")
            yield agreeing(
                count,
                f"{{}} kernel[s] [has|have] more {words} than any GPU, which has {largest:,}.",
            )
    texts = gathered.texts.listed
    for name in ("grid", "block"):
        wrong = [shape for shape in _used(kernels, name, texts) if not _is_shape(shape, name)]
        if wrong:
            yield f"Kernels have a {name} that no GPU can launch: {', '.join(wrong[:_NAMED])}."
    parts = zip(*(kernels.each(name) for name in ("start", "end", "size_bytes")), strict=True)
    if fast := sum(int((size > _BYTES_PER_NS * (e - s).clip(1)).sum()) for s, e, size in parts):
        limit = f"{_BYTES_PER_NS // 1000} TB/s"
        yield agreeing(fast, f"{{}} [copy or set moves|copies or sets move] more than {limit}.")
    if twice := work.launches.repeated_correlations():
        yield agreeing(
            twice,
            "{} call[s] [has|have] the id of another call: which of them launched work is unsure.",
        )
    yield from _of_memory(gathered.columns("memory_events"))
    yield from of_messages(gathered.messages.all())
    if count := work.steps.overlapping:
        yield agreeing(count, "{} step[s] begin[s|] before the one before [it|them] has ended.")


def of_devices(described: pa.Table, work: DeviceWork, *, alike: bool) -> Iterator[str]:
    """Yield what contradicts the devices that are `described` beside the rows.

    `alike` says whether devices are always numbered as in their description.
    """
    listed = described.column("device").to_pylist()
    if twice := len(listed) - len({*listed}):
        yield agreeing(twice, "{} device[s] [is|are] described twice.")
    known = {number for number in listed if number >= 0}
    parts = work.ordered.table.each("device")
    used = {number for part in parts for number in np.unique(part).tolist() if number >= 0}
    if (known if alike else used & known) and (other := used - known):
        named = ", ".join(map(str, sorted(other)[:_NAMED]))
        yield agreeing(
            len(other),
            "{} device[s] with work [is|are] not among those that are described: {named}.",
            named=named,
        )
    largest = max(described.column("memory_bytes").to_pylist(), default=-1)
    events = work.gathered.columns("memory_events")
    pairs = zip(events.each("reserved_bytes"), events.each("device_type"), strict=True)
    reserved = max((int(size[kind != _CPU].max(initial=-1)) for size, kind in pairs), default=-1)
    if 0 < largest < reserved:
        yield f"More memory is reserved than the GPU has: {reserved:,} of {largest:,} bytes."


def of_messages(messages: Iterable[Message]) -> Iterator[str]:
    """Yield how many of the distinct calls of communication contradict themselves."""
    listed = [*messages]
    sizes = [(message.size, count_of(message.ranks)) for message in listed]
    if wrong := sum(0 <= size != count >= 0 for size, count in sizes):
        yield agreeing(
            wrong, "{} collective[s] state[s|] a group size that is not the number of its ranks."
        )
    reduced = [message for message in listed if message.operation == "allreduce"]
    if wrong := sum(0 < message.given != message.got > 0 for message in reduced):
        yield agreeing(
            wrong,
            "{} collective[s] of kind allreduce get[s|] other elements than [it gives|they give].",
        )


def _used(kernels: Columns, name: str, texts: list[str]) -> list[str]:
    """Return the distinct texts in a column."""
    found = np.zeros(len(texts), dtype=np.bool_)
    for part in kernels.each(name):
        found[part] = True
    return [texts[number] for number in np.flatnonzero(found).tolist()]


@lru_cache(1 << 13)  # the files of many ranks repeat each other's shapes
def _is_shape(text: str, name: str) -> bool:
    """Say whether a text is no list of sizes, or one that a GPU can launch."""
    try:
        threads = math.prod(json.loads(text or "[]"))
        is_launched = threads > 0 and (name == "grid" or threads <= _MOST_THREADS)
    except (ValueError, TypeError):
        return True
    return is_launched


def _of_memory(events: Columns) -> Iterator[str]:
    names = ("allocated_bytes", "reserved_bytes", "device_type")
    more = freed = 0
    for allocated, reserved, kind in zip(*(events.each(name) for name in names), strict=True):
        on_gpu = kind != _CPU
        more += int((on_gpu & (allocated > reserved) & (reserved >= 0)).sum())
        freed += int((on_gpu & (reserved < -1)).sum())
    if more:
        yield agreeing(
            more,
            "{} [allocation or free leaves|allocations or frees leave] more memory allocated than"
            " is reserved.",
        )
    if freed:
        yield agreeing(
            freed,
            "{} free[s] of memory [has|have] no allocation in the recording: what is reserved"
            " counts from an unknown start.",
        )
