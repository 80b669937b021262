"""Named ranges of the program over the recorded history."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.memory_snapshot.checked_values import device_index, text, whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """The innermost open range of one device at every time."""

    time_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Times at which another range becomes the innermost, ascending."""
    name: list[str] = field(default_factory=lambda: [""])
    """Its name from each of these times on, after that before the first; "" for none."""

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> dict[int, "Ranges"]:
        """Return the ranges of each device from ``external_annotations``."""
        by_device = defaultdict(list)
        for entry in entries:
            begins = text(entry["stage"]) == "START"
            edge = (whole(entry["time_us"]) * 1000, begins, text(entry["name"]))
            by_device[device_index(entry.get("device", 0))].append(edge)
        return {device: _nested(edges) for device, edges in by_device.items()}

    def at(self, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position in `name` of the innermost range at each time."""
        return np.searchsorted(self.time_ns, time_ns, side="right")


def _nested(edges: list[tuple[int, bool, str]]) -> Ranges:
    open_names: list[str] = []
    times, names = [], [""]
    for time_ns, begins, name in sorted(edges, key=lambda edge: edge[0]):
        if begins:
            open_names.append(name)
        elif name in open_names:
            # The last one of that name: ranges of two threads may cross.
            del open_names[len(open_names) - 1 - open_names[::-1].index(name)]
        times.append(time_ns)
        names.append(open_names[-1] if open_names else "")
    return Ranges(time_ns=np.array(times, dtype=np.int64), name=names)
