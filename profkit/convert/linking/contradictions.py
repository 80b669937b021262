"""Work on devices that contradicts its launch or its stream: damage, counted and said."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import slices
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.names import launches_work
from profkit.core.formatting import agreeing

_SHARE = 0.1
"""Launches before a recording and after it leave fewer without a partner."""
_FEWEST = 10
_OVERLAP_SHARE = 0.01
_CLOCKS_NS = 1_000_000
"""The clocks of the CPU and of a device agree within this."""
_LATEST = 10
_LONG_NS = 10_000_000_000
"""Work may wait for seconds, for another rank."""
_BY_FAULT = re.compile(r"\bUVM\b")
"""Pages of managed memory move when they are used, and no call launches that."""

_BEGINNING = "[kernel, copy or set begins|kernels, copies or sets begin]"


@dataclass(kw_only=True, slots=True)
class _Counts:
    unlaunched: int = 0
    early: int = 0
    late: int = 0
    overlapping: int = 0
    overlap_ns: int = 0
    busy_ns: int = 0
    launching: Column = field(default_factory=lambda: np.zeros(0, np.bool_))
    """For each call, whether work names it as its launch."""


def contradictions(work: DeviceWork) -> Iterator[str]:
    """Yield a sentence for each way in which work contradicts what launched it or its stream."""
    found, count = _counted(work), work.count
    if found.unlaunched >= max(_FEWEST, _SHARE * count):
        yield (
            f"{found.unlaunched:,} of {count:,} kernels, copies or sets have no call that launched"
            " them in the file."
        )
    launches = work.launches.recorded.named(work.gathered.names.matching(launches_work))
    idle = int((~found.launching[launches]).sum())
    if count and idle >= max(_FEWEST, _SHARE * len(launches)):
        yield f"{idle:,} of {len(launches):,} launches have no work on a device in the file."
    if found.early:
        yield agreeing(found.early, f"{{}} {_BEGINNING} before the call that launched [it|them].")
    if found.late:
        yield agreeing(
            found.late,
            f"{{}} {_BEGINNING} after the last launch, by {_LATEST} times as long as all launches"
            " took.",
        )
    if found.overlap_ns > _OVERLAP_SHARE * found.busy_ns:
        yield agreeing(
            found.overlapping,
            f"{{}} {_BEGINNING} before the one before [it|them] in [its|their] stream has ended:"
            " what they share counts twice.",
        )


def _counted(work: DeviceWork) -> _Counts:
    calls = work.launches.recorded
    counts = _Counts(launching=np.zeros(calls.count, np.bool_))
    begun = [(part.min(), part.max()) for part in calls.each("start") if len(part)]
    last = max((int(part[1]) for part in begun), default=0)
    by_fault = work.gathered.names.matching(_BY_FAULT.search)
    took = last - min((int(part[0]) for part in begun), default=0)
    for rows in slices(work.count):
        part, call = work.ordered.select(rows), work.call()[rows]
        start, end = part["start"], part["end"]
        launched = call >= 0
        counts.launching[call[launched]] = True
        counts.unlaunched += int((~launched & ~by_fault[part["name"]]).sum())
        after = (start - calls.at("start", call))[launched]
        counts.early += int((after < -_CLOCKS_NS).sum())
        if begun:
            counts.late += int((start - last > max(_LATEST * took, _LONG_NS)).sum())
        counts.busy_ns += int((end - start).sum())
        overlaps = _overlaps(part["device"], part["stream"], start, end)
        counts.overlapping += len(overlaps)
        counts.overlap_ns += int(overlaps.sum())
    return counts


def _overlaps(device: Column, stream: Column, start: Column, end: Column) -> Column:
    """Return by how much each piece of work overlaps the one before it in its stream, if any."""
    order = np.lexsort((start, stream, device))
    device, stream, start, end = (column[order] for column in (device, stream, start, end))
    alike = (device[1:] == device[:-1]) & (stream[1:] == stream[:-1]) & (stream[1:] >= 0)
    # What stands in the file twice is said elsewhere, and moments take no time.
    alike &= ((start[1:] != start[:-1]) | (end[1:] != end[:-1])) & (end[1:] > start[1:])
    over: Column = (end[:-1] - start[1:])[alike]
    return over[over > 0]
