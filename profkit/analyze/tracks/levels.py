"""The whole recording in a few hundred pieces: how busy each track is in each of them."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import spans_of, union_of_rows
from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import filtered
from profkit.analyze.tracks.of_rank import Recorded, by_stream, cause_name

Pieces = Intervals
_STREAM = ["device", "stream"]
_EVENTS = ["time_ns", "allocated_bytes"]


def pieces(start_ns: int, end_ns: int, count: int) -> Pieces:
    """Return `count` windows of about equal length, end to end."""
    edges = start_ns + np.arange(count + 1, dtype=np.int64) * max(end_ns - start_ns, 1) // count
    return np.column_stack((edges[:-1], edges[1:]))


def levels(one: Recorded, windows: Pieces) -> Iterator[dict[str, Any]]:
    """Yield how busy each track of a rank is in each of `windows`, of the common clock."""
    rank = one.rank
    own = windows + one.offset_ns
    number = rank.where[0]
    yield {"rank": number, "kind": "causes", **_most(one, own)}
    for tid, role in rank.roles.names().items():
        spans = np.concatenate(
            (
                union_of_rows(rank.ops, rank.works & (rank.op_threads == tid)),
                union_of_rows(rank.calls, rank.call_threads == tid),
            )
        )
        where = {"rank": number, "kind": "cpu", "thread": tid, "role": role}
        busy = _busy(spans, own)
        if any(busy):
            yield {**where, "busy_percent": busy}
    if len(one.collectives):
        busy = _busy(spans_of(one.collectives), own)
        yield {"rank": number, "kind": "collectives", "busy_percent": busy}
    for device, stream, kernels in by_stream(rank.kernels[[*_STREAM, "start_ns", "end_ns"]]):
        where = {"rank": number, "kind": "gpu", "device": device, "stream": stream}
        yield {**where, "busy_percent": _busy(spans_of(kernels), own)}
    for place, events in _by_device(one.memory):
        where = {"rank": number, "kind": "memory", "device": place}
        yield {**where, "allocated_bytes": _highest(events, own)}


def _busy(spans: Intervals, windows: Pieces) -> list[int]:
    covered = intervals.overlap(windows, intervals.union(spans))
    length = np.maximum(windows[:, 1] - windows[:, 0], 1)
    # Rounded up, so that what is little differs from nothing.
    return [int(share) for share in np.ceil(100 * covered / length)]


def _most(one: Recorded, windows: Pieces) -> dict[str, list[Any]]:
    """Return the causes, and which of them has most of each window; -1 outside of all."""
    times = one.time.times(windows)
    if not times:
        return {"causes": [], "cause": [-1] * len(windows)}
    table = np.array(list(times.values()))
    most = np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1)
    return {"causes": [cause_name(cause) for cause in times], "cause": most.tolist()}


def _by_device(memory: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each device with its events, of which there may be millions, one device at a time."""
    devices = cast("pd.Categorical", memory["device"].array)
    for code in np.unique(devices.codes):
        yield str(devices.categories[code]), filtered(memory[_EVENTS], devices.codes == code)


def _highest(events: pd.DataFrame, windows: Pieces) -> list[int]:
    """Return the most that was allocated in each window; -1 before the first event."""
    time, size = points(events)
    found = np.full(len(windows), -1, dtype=np.int64)
    for rows in intervals.blocks(len(time)):
        piece = np.searchsorted(windows[:, 1], time[rows], side="right")
        inside = (piece < len(windows)) & (time[rows] >= windows[0, 0])
        np.maximum.at(found, piece[inside], size[rows][inside])
    # What was allocated last in earlier windows is still there.
    at = np.searchsorted(time, windows[:, 0], side="right") - 1
    before = np.where(at >= 0, size[np.maximum(at, 0)], -1)
    return [int(most) for most in np.maximum(found, before)]


def points(events: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the times in order, and how much is allocated from each on."""
    time, size = (events[name].to_numpy(np.int64) for name in ("time_ns", "allocated_bytes"))
    if not (time[1:] < time[:-1]).any():
        return time, size
    order = np.argsort(time, kind="stable")
    return time[order], size[order]


def memory_lines(one: Recorded, window: tuple[int, int], most: int) -> Iterator[dict[str, Any]]:
    """Yield the memory of each device in a window of the common clock, as steps of a line.

    Of more than `most` points, the highest and the lowest of each run are kept.
    """
    for device, events in _by_device(one.memory):
        time, size = points(events)
        time = time - one.offset_ns
        first = max(int(np.searchsorted(time, window[0], side="right")) - 1, 0)
        inside = slice(first, int(np.searchsorted(time, window[1])))
        time, size = time[inside], size[inside]
        if not len(time):
            continue
        chosen = _extremes(size, most)
        starts = np.maximum(time[chosen], window[0]) - window[0]
        yield {
            "rank": one.rank.where[0],
            "kind": "memory",
            "device": device,
            "time_ns": np.diff(starts, prepend=0).tolist(),
            "allocated_bytes": size[chosen].tolist(),
        }


def _extremes(values: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    if len(values) <= most:
        return np.arange(len(values))
    runs = np.array_split(np.arange(len(values)), max(most // 2, 1))
    picked = [(run[values[run].argmin()], run[values[run].argmax()]) for run in runs]
    return np.unique(np.array(picked).ravel())
