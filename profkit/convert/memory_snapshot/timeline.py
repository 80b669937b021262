"""The active memory of one device over time, as one HTML file that stays small and fluent.

The largest allocations are drawn one by one, each with its stack; all others are summed into one
band over a fixed number of bins, so that the page costs the same whatever the history is.
"""

from collections.abc import Sequence
from html import escape
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from profkit.convert.drawing.page import embedded_json, filled
from profkit.convert.memory_snapshot.history import ACTIONS, Ints, allocated_bytes
from profkit.convert.memory_snapshot.snapshot import Device, Snapshot
from profkit.convert.memory_snapshot.stacks import NONE

LIMIT_BYTES = 4_000_000
"""Of the data in the page; fewer allocations are drawn one by one until it is kept."""

_TEMPLATE = Path(__file__).parent / "assets" / "timeline.html"
_MOST_DRAWN = 3000
_BINS = 2000
_MOST_FRAMES = 80
_MOST_MARKS = 500
_TEXT_CHARACTERS = 240
_OOM = ACTIONS.index("oom")

Windows = Sequence[tuple[int, int]]


def page(device: Device, snapshot: Snapshot, steps: Windows, title: str) -> str:
    """Return the page; `steps` are start and end of each step in unix ns."""
    return filled(_TEMPLATE, title=escape(title), data=_data(device, snapshot, steps))


def _data(device: Device, snapshot: Snapshot, steps: Windows) -> str:
    most = _MOST_DRAWN
    while True:
        written = embedded_json(content(device, snapshot, steps, most))
        if len(written) <= LIMIT_BYTES or most == 0:
            return written
        most //= 2


def content(device: Device, snapshot: Snapshot, steps: Windows, most: int) -> dict[str, Any]:
    """Return the data that the page's script draws, with at most `most` allocations one by one."""
    found, events = device.allocations, device.events
    count = len(events.action)
    drawn = np.sort(np.argsort(-found.size_bytes, kind="stable")[:most])
    # By start, so that the page can pile them up in this order.
    drawn = drawn[np.argsort(found.start[drawn], kind="stable")]
    distinct, numbers = np.unique(found.stack[drawn], return_inverse=True)
    frames, stacks = _stacks(snapshot, distinct.tolist())
    lines = [*snapshot.stacks.lines(), ""]
    # Without a history, the last state is all there is.
    whole = allocated_bytes(count, found) if count else np.array([found.size_bytes.sum()])
    rest = whole - _live_bytes(device, drawn, len(whole))
    at = _highest_entries(whole)
    return {
        "count": count,
        "at": at,
        "size": found.size_bytes[drawn].tolist(),
        "start": found.start[drawn].tolist(),
        "end": np.where(found.end[drawn] < 0, len(whole), found.end[drawn]).tolist(),
        "stack": numbers.tolist(),
        "note": _notes(device, drawn),
        "frames": frames,
        "stacks": stacks,
        # Of `NONE` it is the last one.
        "lines": [lines[number][:_TEXT_CHARACTERS] for number in distinct],
        "time": _times(events.time_ns),
        "rest": rest[at].tolist(),
        "whole": whole[at].tolist(),
        "hidden": len(found.start) - len(drawn),
        "peak": int(np.argmax(whole)),
        "oom": np.flatnonzero(events.action == _OOM)[:_MOST_MARKS].tolist(),
        "steps": _step_starts(events.time_ns, steps),
    }


def _live_bytes(device: Device, drawn: Ints, count: int) -> Ints:
    """Return how many bytes of the `drawn` allocations are live after each entry."""
    found = device.allocations
    start, end, size = found.start[drawn], found.end[drawn], found.size_bytes[drawn]
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, np.maximum(start, 0), size)
    np.subtract.at(change, np.where(end < 0, count, end), size)
    return np.cumsum(change)[:count]


def _highest_entries(whole: Ints) -> list[int]:
    """Return the entry with the most memory in each of at most `_BINS` equal bins."""
    edges = np.unique(np.linspace(0, len(whole), _BINS + 1).astype(np.int64)).tolist()
    return [start + int(whole[start:end].argmax()) for start, end in pairwise(edges)]


def _times(time_ns: Ints) -> list[float]:
    """Return the time of each bin's edge since the first entry, in ms; none if not recorded."""
    if not len(time_ns) or (time_ns < 0).any():
        return []
    at = np.minimum(np.linspace(0, len(time_ns), _BINS + 1).astype(np.int64), len(time_ns) - 1)
    # Entries of several threads may be out of order by a little.
    since_ms = (np.maximum.accumulate(time_ns)[at] - time_ns[0]) / 1e6
    return [round(time_ms, 3) for time_ms in since_ms.tolist()]


def _stacks(snapshot: Snapshot, wanted: Sequence[int]) -> tuple[list[str], list[list[int]]]:
    """Return the texts of frames, and each wanted stack as indices of them, innermost first."""
    known: dict[str, int] = {}
    stacks = []
    for number in wanted:
        names = () if number == NONE else reversed(snapshot.stacks.names(number))
        texts = (name[:_TEXT_CHARACTERS] for name in islice(names, _MOST_FRAMES))
        stacks.append([known.setdefault(text, len(known)) for text in texts])
    return list(known), stacks


def _notes(device: Device, drawn: Ints) -> list[str]:
    """Return a note on each allocation, such as the range that was open."""
    found, events = device.allocations, device.events
    if not len(events.action):
        return ["" for _ in drawn]
    starts = found.start[drawn]
    ranges = [device.ranges.name[index] for index in device.ranges.at(events.time_ns[starts])]
    return [
        ", ".join(filter(None, (name, events.contexts[events.context[start]])))[:_TEXT_CHARACTERS]
        if start >= 0
        else "live before the history begins"
        for start, name in zip(starts.tolist(), ranges, strict=True)
    ]


def _step_starts(time_ns: Ints, steps: Windows) -> list[tuple[int, int]]:
    """Return the number of each step that the history saw begin, and its first entry."""
    if not len(time_ns) or (time_ns < 0).all():
        return []
    order = np.maximum.accumulate(time_ns)
    inside = [
        (number, start) for number, (start, _) in enumerate(steps) if order[0] <= start <= order[-1]
    ]
    return [(number, int(np.searchsorted(order, start))) for number, start in inside[:_MOST_MARKS]]
