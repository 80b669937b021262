"""Repeated sequences: maximal repeats of numbers, vectorised over their length.

A repeat is maximal if no sequence one longer, on either side, occurs as often. Where a sequence
follows itself, as the layers of a network do, it is cut where the next one begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """One sequence that occurs several times."""

    length: int
    starts: Numbers
    """Where its occurrences start; they do not overlap."""
    covered: int
    """Sum of the weights of all that an occurrence covers, each once."""

    def values(self, of: Numbers) -> tuple[int, ...]:
        """Return the sequence."""
        first = int(self.starts[0])
        return tuple(of[first : first + self.length].tolist())


def maximal_repeats(
    value: Numbers, track: Numbers, weight: Numbers, *, max_length: int, min_count: int
) -> list[Repeat]:
    """Return sequences of 2 to `max_length` values within a track, those that cover most first.

    Rows are sorted by track. `min_count` (2 or more) is how often a sequence must occur, overlaps
    included.
    """
    before = np.concatenate([[0], np.cumsum(weight)])
    found = [
        _repeat(length, starts, before)
        for length, starts in _maximal(value, track, max_length, min_count)
    ]
    found = [repeat for repeat in found if repeat.length > 1]
    return sorted(
        found, key=lambda repeat: (-repeat.covered, -repeat.length, int(repeat.starts[0]))
    )


def distinct(repeats: list[Repeat], value: Numbers, count: int) -> list[Repeat]:
    """Return the first `count` of which none is a part of another before it, or the reverse."""
    kept: list[tuple[Repeat, str, str]] = []
    for repeat in repeats:
        text = ",".join(map(str, repeat.values(value)))
        # Where a sequence follows itself it can be found from any of its positions on.
        own, twice = f",{text},", f",{text},{text},"
        if not any(own in cycle or other in twice for _, other, cycle in kept):
            kept.append((repeat, own, twice))
        if len(kept) == count:
            break
    return [repeat for repeat, _, _ in kept]


def _maximal(
    value: Numbers, track: Numbers, max_length: int, min_count: int
) -> Iterator[tuple[int, Numbers]]:
    """Yield length and starts of the maximal repeats, the shorter ones first."""
    # Row i holds the number of the sequence that begins there, -1 where too few are like it.
    gram, count = _numbered(value, min_count)
    for length in range(1, max_length + 1):
        longer, longer_count = _longer(gram, value, track, length, min_count)
        before = np.concatenate([[0], longer_count[:-1]])
        extended = np.zeros(int(gram.max(initial=-1)) + 1, dtype=np.int64)
        known = gram >= 0
        np.maximum.at(extended, gram[known], np.maximum(longer_count, before)[known])
        if length > 1:
            maximal = known & (extended[gram] < count)
            yield from ((length, starts) for starts in _grouped(gram, maximal))
        gram, count = longer, longer_count
        if not (gram >= 0).any():
            return


def _longer(
    gram: Numbers, value: Numbers, track: Numbers, length: int, min_count: int
) -> tuple[Numbers, Numbers]:
    """Return number and count of the sequences one longer than `length`."""
    rows = np.flatnonzero(gram[: len(gram) - length] >= 0)
    rows = rows[(track[rows] == track[rows + length]) & (gram[rows + 1] >= 0)]
    key = gram[rows] * (int(value.max(initial=0)) + 1) + value[rows + length]
    result, counts = np.full(len(gram), -1, dtype=np.int64), np.zeros(len(gram), dtype=np.int64)
    result[rows], counts[rows] = _numbered(key, min_count)
    return result, counts


def _numbered(key: Numbers, min_count: int) -> tuple[Numbers, Numbers]:
    """Return a number for each distinct key, -1 for those that are too few, and their counts."""
    number, _ = pd.factorize(key)
    count = np.bincount(number)[number]
    return np.where(count >= min_count, number, -1), np.where(count >= min_count, count, 0)


def _grouped(gram: Numbers, chosen: NDArray[np.bool_]) -> Iterator[Numbers]:
    """Yield the rows of each number, of those that are `chosen`."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(gram[rows], kind="stable")]
    yield from (
        part for part in np.split(rows, np.flatnonzero(np.diff(gram[rows])) + 1) if len(part)
    )


def _repeat(length: int, starts: Numbers, before: Numbers) -> Repeat:
    # Occurrences that mostly overlap the one before are of a shorter sequence that follows itself.
    length = min(length, int(np.median(np.diff(starts))))
    ends = np.minimum(starts + length, np.append(starts[1:], len(before)))
    covered = int((before[ends] - before[starts]).sum())
    beside = []
    until = 0
    for start in starts.tolist():
        if start >= until:
            beside.append(start)
            until = start + length
    return Repeat(length=length, starts=np.array(beside, dtype=np.int64), covered=covered)
