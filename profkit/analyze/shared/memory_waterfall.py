"""Waterfall of memory: the difference of the peaks of two runs by what filled them.

Made of two results of the analysis ``memory_peak``: of each the device with the highest peak.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from profkit.core.result import Result
from profkit.tables.tree_paths import SEPARATOR

_NOT_LISTED = "not listed"
_UNNAMED = ("", "(not recorded)")
_FRAMES = 8
_MOST = 8

Sizes = Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBar:
    """What one category, layer, operator or stack adds to the difference of the peaks."""

    title: str
    """Category (forward, backward, optimizer, data, set-up), module, operator, or stack."""

    before_bytes: int
    after_bytes: int
    difference_bytes: int
    parts: tuple["MemoryBar", ...] = ()
    """What it is the sum of, the largest difference first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryWaterfall:
    """Bars from the peak of one run to that of another, which sum to the difference."""

    before_bytes: int
    after_bytes: int
    bars: tuple[MemoryBar, ...]
    """By category, the largest difference first; each has its modules, and these operators."""

    stacks: tuple[MemoryBar, ...]
    """The stacks, from the innermost frame out, that differ most; not all of the difference."""


def memory_waterfall(before: Result, after: Result) -> MemoryWaterfall | None:
    """Return the waterfall between two results of ``memory_peak``; None if one has no peak."""
    both = [before, after]
    if any("peak_bytes" not in result.metrics for result in both):
        return None
    peaks = [int(result.metrics["peak_bytes"].value) for result in both]
    sizes = [_sizes(result, "parts") for result in both]
    for own, peak in zip(sizes, peaks, strict=True):
        if left := peak - sum(own.values()):
            own[_NOT_LISTED] = left
    stacks = [Counter[str]() for _ in both]
    for own, result in zip(stacks, both, strict=True):
        for path, size in _sizes(result, "stacks").items():
            own[" < ".join(path.split(SEPARATOR)[: -_FRAMES - 1 : -1])] += size
    changed = [bar for bar in _bars(stacks[0], stacks[1], depth=0) if bar.difference_bytes]
    return MemoryWaterfall(
        before_bytes=peaks[0],
        after_bytes=peaks[1],
        bars=tuple(_bars(sizes[0], sizes[1])),
        stacks=tuple(changed[:_MOST]),
    )


def largest(bars: Iterable[MemoryBar]) -> Iterator[tuple[str, MemoryBar]]:
    """Yield each of the bars with a title that leads to the part that explains it."""
    for bar in bars:
        titles, at = [bar.title], bar
        while at.parts and 2 * abs(at.parts[0].difference_bytes) > abs(at.difference_bytes):
            at = at.parts[0]
            titles.append(at.title)
        yield ", ".join(title for title in titles if title not in _UNNAMED), bar


def _sizes(result: Result, name: str) -> dict[str, int]:
    """Return the bytes by path, of the rank with the highest peak: it comes first."""
    rows = result.tables[name]
    found: dict[str, int] = {}
    for row in rows.rows:
        if row[0] == rows.rows[0][0]:
            found[str(row[1])] = found.get(str(row[1]), 0) + int(row[2] or 0)
    return found


def _bars(before: Sizes, after: Sizes, depth: int = 3) -> list[MemoryBar]:
    """Return the bars of the first level of paths, those below it as their parts."""
    found = []
    first = {path: path.partition(SEPARATOR)[0] if depth else path for path in [*before, *after]}
    for title in dict.fromkeys(first.values()):
        own = [
            {
                path.partition(SEPARATOR)[2]: size
                for path, size in sizes.items()
                if first[path] == title
            }
            for sizes in (before, after)
        ]
        totals = [sum(sizes.values()) for sizes in own]
        has_parts = depth > 1 and any(path for sizes in own for path in sizes)
        found.append(
            MemoryBar(
                title=title,
                before_bytes=totals[0],
                after_bytes=totals[1],
                difference_bytes=totals[1] - totals[0],
                parts=tuple(_bars(own[0], own[1], depth - 1)) if has_parts else (),
            )
        )
    return sorted(found, key=lambda bar: -abs(bar.difference_bytes))
