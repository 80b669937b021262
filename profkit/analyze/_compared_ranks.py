"""What is known of all ranks, to compare the one that comes last with the others."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from profkit.analyze.division import gpu, names
from profkit.core.result import Result

WAITING = f"{gpu.EXPOSED}.waiting"
BEFORE, _IN = "before the step", "in "
"""Since when a rank is late; what it is late in."""

_MS = 1e6
_MOST = 0.5
_ONE = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What is known of all ranks beside their causes."""

    stragglers: Result | None
    flops: Result | None
    launching_ms: Mapping[int, tuple[float, float]]
    """How long the CPU of each rank works in a step to launch, at least and at most."""

    by_step: Sequence[Mapping[str, Any]]
    """Causes of each step of each rank; none where there are too many to be kept."""

    @classmethod
    def of(cls, causes: Result, stragglers: Result | None, flops: Result | None) -> Self:
        """Return what is known of the ranks of `causes`."""
        rows = causes.tables["ranks"].records() if "ranks" in causes.tables else ()
        times = {
            row["rank"]: (
                (row.get("launching_least_ns") or 0.0) / _MS,
                (row.get("launching_most_ns") or 0.0) / _MS,
            )
            for row in rows
        }
        steps = causes.tables.get("by_step")
        by_step = steps.records() if steps and not steps.left_out else ()
        return cls(stragglers=stragglers, flops=flops, launching_ms=times, by_step=by_step)

    def mostly_in_one_of(self, cause: str, rank: int, other: int) -> int:
        """Return of how many steps one has most of the time of a cause that `rank` has more of.

        More than the `other` rank has in the same step. 0 where several steps have it, where there
        is one only, and where it is not known. A part of a cause counts with that.
        """
        times: dict[int, dict[tuple[int, int], float]] = {rank: {}, other: {}}
        columns = _columns(cause, self.by_step[0]) if self.by_step else ()
        for row in self.by_step:
            if row["rank"] in times:
                where = (row["repeat"], row["step"])
                times[row["rank"]][where] = sum(float(row[name] or 0) for name in columns)
        more = [max(ns - times[other].get(where, ns), 0.0) for where, ns in times[rank].items()]
        is_one = len(more) > 1 and max(more) > max(_ONE * sum(more), 0.0)
        return len(more) if is_one else 0

    def launches_more_ms(self, late: int, rank: int) -> float:
        """Return how much longer the CPU of the `late` rank works than that of another one."""
        if late not in self.launching_ms or not any(self.launching_ms[late]):
            return math.inf  # there is no GPU
        pairs = zip(self.launching_ms[late], self.launching_ms[rank], strict=True)
        return max(more - own for more, own in pairs)

    def behind(self, late: int) -> tuple[str, float]:
        """Return in what the CPU of a rank falls behind, and how late it begins steps in ms.

        "" and 0 where that is not so for most of the waiting that it causes.
        """
        tables = self.stragglers.tables if self.stragglers else {}
        rows = [
            row
            for row in (tables["causes"].records() if "causes" in tables else ())
            if row["rank"] == late and row["since"]
        ]
        waits: dict[str, float] = {}
        for row in rows:
            where = row["fell_behind_in"] if row["place"] == "host" else ""
            key = BEFORE if row["since"] == BEFORE else f"{_IN}{where}"
            waits[key] = waits.get(key, 0.0) + row["caused_wait_ns"]
        most = max(waits, key=lambda key: waits[key], default="")
        if not waits or waits[most] < _MOST * sum(waits.values()):
            return "", 0.0
        if most == BEFORE:
            return "", max(row["late_ns"] for row in rows if row["since"] == BEFORE) / _MS
        return most.removeprefix(_IN), 0.0


def _columns(cause: str, columns: Iterable[str]) -> list[str]:
    """Return the `columns` with the time of a cause, or of the nearest one above it."""
    for above in reversed(names.parts_of(cause)):
        found = [name for name in columns if name.startswith((f"{above}_ns", f"{above}."))]
        if found:
            return found
    return []
