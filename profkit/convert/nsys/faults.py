"""What a report holds that no recording can: kept out of the columns, counted, and said."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import LARGEST_BYTES, LATEST_NS, Ints
from profkit.convert.nsys.store import UNKNOWN

_STARTS = ("start", "timestamp")
_LARGEST = {
    "end": LATEST_NS,
    "bytes": LARGEST_BYTES,
    "staticSharedMemory": LARGEST_BYTES,
    "dynamicSharedMemory": LARGEST_BYTES,
    "totalMemory": LARGEST_BYTES,
    **dict.fromkeys(("deviceId", "registersPerThread", "cudaId", "smCount"), 2**31),
    **dict.fromkeys(("maxWarpsPerSm", "threadsPerWarp", "maxRegistersPerSm"), 2**31),
}
"""Where a column is that of a table, what its values are below."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """What was found, by sentence; whatever is read twice is counted once."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, count: int, sentence: str) -> None:
        """Keep a sentence about `count` things, if there are any."""
        if count:
            self.counts[sentence] = count

    def notes(self) -> list[str]:
        """Return all that was found, one sentence each."""
        return [f"{count:,} {sentence}" for sentence, count in self.counts.items()]

    def plausible(self, table: str, read: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the columns of a table with -1 for values that nothing has."""
        found = dict(read)
        for name in _LARGEST.keys() & read.keys():
            absurd = (read[name] >= _LARGEST[name]) | (read[name] <= -_LARGEST[name])
            if absurd.any():
                self.note(int(absurd.sum()), f"values of {table}.{name} are absurd: unknown.")
                found[name] = np.where(absurd, UNKNOWN, read[name])
        return found

    def timed(
        self, table: str, read: Mapping[str, Ints], *, ends_late: bool
    ) -> NDArray[np.bool_] | slice:
        """Return which rows of a table have a time; `ends_late` says if an end may be missing."""
        name = next((name for name in _STARTS if name in read), "")
        if not name:
            return slice(None)
        start = read[name]
        kept = (start != UNKNOWN) & (np.abs(start // 2) < LATEST_NS // 2)
        self.note(
            int((~kept).sum()),
            f"rows of {table} have no time, or none that a recording has: left out.",
        )
        if "end" in read:
            closed = read["end"] != UNKNOWN
            if not ends_late:
                self.note(
                    int((kept & ~closed).sum()), f"rows of {table} have no end: they are 0 ns long."
                )
            self.note(
                int((kept & closed & (read["end"] < start)).sum()),
                f"rows of {table} end before they start: they are 0 ns long.",
            )
        return slice(None) if kept.all() else kept
