"""What a report holds that no recording can: kept out of the columns, counted, and said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import LARGEST_BYTES, LATEST_NS, Ints
from profkit.convert.linking.doubtful import alike
from profkit.convert.nsys.names import COPY_DIRECTIONS
from profkit.convert.nsys.store import UNKNOWN
from profkit.core.formatting import agreeing

_STARTS = ("start", "timestamp")
_SMALL = (
    *("deviceId", "streamId", "correlationId", "graphId", "cudaId", "registersPerThread"),
    *("maxWarpsPerSm", "threadsPerWarp", "maxRegistersPerSm", "smCount", "gridX", "gridY", "gridZ"),
    *("blockX", "blockY", "blockZ", "copyKind", "srcKind", "dstKind", "memKind", "eventType"),
    *("nameId", "textId", "metricId", "memoryOperationType", "symbol", "stackDepth"),
)
_SIZES = ("bytes", "staticSharedMemory", "dynamicSharedMemory", "totalMemory")
_LARGEST = {
    "end": LATEST_NS,
    **dict.fromkeys(_SIZES, LARGEST_BYTES),
    **dict.fromkeys(_SMALL, 2**32),
}
"""Where a column is that of a table, what its values are below."""
_GLOBAL = ("globalPid", "globalTid")
_NEEDED = frozenset({"correlationId", "globalTid", "nameId", "eventType", "metricId", "value"})
"""Columns that each table has which is asked for them."""
_NEVER_NULL = _NEEDED.union(
    ("globalPid", "copyKind", "srcKind", "dstKind", "address", "bytes", "memoryOperationType"),
    ("deviceId", "typeId", "id", "gridX", "gridY", "gridZ", "symbol"),
    ("staticSharedMemory", "dynamicSharedMemory"),
)
"""Columns that hold a number in each row of a table that has them."""

_HOST_KINDS, _DEVICE_KINDS = (0, 1), (2, 3, 5)
"""Kinds of memory by nsys' number: pageable, pinned; device, array, static. Managed is both."""
_LARGEST_PERCENT = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """What was found, by sentence; whatever is read twice is counted once."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, count: int, sentence: str) -> None:
        """Keep a sentence about `count` things, as `agreeing` takes it but for the count."""
        if count:
            self.counts[sentence] = count

    def notes(self) -> list[str]:
        """Return all that was found, one sentence each."""
        return [agreeing(count, f"{{}} {sentence}") for sentence, count in self.counts.items()]

    def plausible(
        self, table: str, read: Mapping[str, Ints], present: frozenset[str]
    ) -> dict[str, Ints]:
        """Return the columns of a table with -1 for values that nothing has."""
        found = dict(read)
        for name in _LARGEST.keys() & read.keys():
            least = -LATEST_NS if name == "end" else UNKNOWN
            absurd = (read[name] >= _LARGEST[name]) | (read[name] < least)
            if absurd.any():
                self.note(
                    int(absurd.sum()), f"value[s] of {table}.{name} [is|are] absurd: unknown."
                )
                found[name] = np.where(absurd, UNKNOWN, read[name])
        for name in read.keys() & ((_NEVER_NULL & present) | _NEEDED):
            # A process or thread has no negative number, other values may be.
            unknown = read[name] < 0 if name in _GLOBAL else read[name] == UNKNOWN
            self.note(int(unknown.sum()), f"row[s] of {table} [has|have] no {name}: unknown.")
        return found

    def repeated(self, table: str, read: Mapping[str, Ints]) -> None:
        """Note how many rows of a table say what another one says."""
        sentence = (
            f"row[s] of {table} stand[s|] in the file twice, with the same times: both count."
        )
        self.note(alike([read], [*read]), sentence)

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
            f"row[s] of {table} [has|have] no time, or none that a recording has: left out.",
        )
        if "end" in read:
            closed = read["end"] != UNKNOWN
            if not ends_late:
                self.note(
                    int((kept & ~closed).sum()),
                    f"row[s] of {table} [has|have] no end: 0 ns long.",
                )
            self.note(
                int((kept & closed & (read["end"] < start)).sum()),
                f"row[s] of {table} end[s|] before [it starts|they start]: 0 ns long.",
            )
        return slice(None) if kept.all() else kept

    def copied(self, read: Mapping[str, Ints]) -> None:
        """Note how many copies have a direction that the memory at their ends contradicts."""
        on_host = [np.isin(read[end], _HOST_KINDS) for end in ("srcKind", "dstKind")]
        on_device = [np.isin(read[end], _DEVICE_KINDS) for end in ("srcKind", "dstKind")]
        wrong = np.zeros(len(read["copyKind"]), dtype=np.bool_)
        for number, direction in COPY_DIRECTIONS.items():
            ends = direction.removeprefix("UVM ").replace("P", "D").split("to")
            for place, end in enumerate(ends):
                other = on_host[place] if end == "D" else on_device[place]
                wrong |= (read["copyKind"] == number) & other
        self.note(
            int(wrong.sum()),
            "[copy contradicts|copies contradict] the kinds of memory that"
            " [it connects|they connect].",
        )

    def counted(self, value: Ints, labels: Sequence[str]) -> None:
        """Note how many counters of GPUs have values that nothing has."""
        shares = np.array(["%" in label for label in labels], dtype=np.bool_)
        self.note(
            int(((value < 0) | (shares & (value > _LARGEST_PERCENT))).sum()),
            f"counter[s] of GPUs [is|are] below 0 or above {_LARGEST_PERCENT} %.",
        )
