"""Tracks of slices, and how they travel: columns of numbers that refer to one list of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Kind = Literal["causes", "phases", "cpu", "python", "collectives", "gpu"]
_ALWAYS = frozenset({"causes", "phases", "collectives", "gpu"})
"""Tracks that keep their slices as long as there is room for any."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """Slices of one place, on the common clock."""

    rank: int
    kind: Kind
    rows: pd.DataFrame
    """``start_ns``, ``end_ns``, ``name``, the columns of `about`, and ``link`` where slices of
    several tracks belong together: a call and what it launched, a collective on all ranks."""

    where: dict[str, int | str] = field(default_factory=dict)
    """Thread and its role, or device and stream."""

    about: tuple[str, ...] = ()
    """Columns that a reader may ask for: texts, and numbers that are -1 where not known."""


class Texts:
    """Texts numbered as they come up."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def codes(self, values: pd.Series) -> NDArray[np.int64]:
        """Return the number of each text; that of "" for none."""
        codes, known = pd.factorize(values)
        numbers = [self.numbers.setdefault(str(text), len(self.numbers)) for text in known]
        numbers.append(self.numbers.setdefault("", len(self.numbers)))
        return np.array(numbers, dtype=np.int64)[codes]


def kept(tracks: Sequence[Track], most: int) -> tuple[list[Track], dict[str, int]]:
    """Return the tracks with `most` slices in all, and what was left out: the shortest slices.

    A slice lasts at least as long as those inside it, so none is left without those around it.
    """
    lengths = [(track.rows["end_ns"] - track.rows["start_ns"]).to_numpy() for track in tracks]
    every = np.concatenate([*lengths, np.empty(0, dtype=np.int64)])
    if len(every) <= most:
        return list(tracks), {"slices": 0, "longest_ns": 0}
    sizes = [len(length) for length in lengths]
    last = np.repeat([track.kind not in _ALWAYS for track in tracks], sizes)
    order = np.lexsort((-every, last))
    chosen = np.zeros(len(every), dtype=np.bool_)
    chosen[order[:most]] = True
    parts = np.split(chosen, np.cumsum(sizes)[:-1])
    found = [
        Track(
            rank=track.rank,
            kind=track.kind,
            rows=track.rows[part],
            where=track.where,
            about=track.about,
        )
        for track, part in zip(tracks, parts, strict=True)
    ]
    left = every[~chosen]
    return [track for track in found if len(track.rows)], {
        "slices": len(left),
        "longest_ns": int(left.max()),
    }


def encoded(tracks: Sequence[Track], origin_ns: int) -> dict[str, Any]:
    """Return the tracks as plain lists, and what they refer to; times count from the origin.

    Slices are in order of their start, which is stated as the distance from the one before.
    """
    texts = Texts()
    about: dict[str, dict[str, list[Any]]] = {}
    by_kind: dict[str, list[Track]] = {}
    for track in tracks:
        by_kind.setdefault(track.kind, []).append(track)
    codes: dict[int, NDArray[np.int64]] = {}
    for kind, alike in by_kind.items():
        found = _about(alike, texts)
        about[kind], numbers = found
        codes |= {id(track): part for track, part in zip(alike, numbers, strict=True)}
    made = [_columns(track, origin_ns, texts, codes[id(track)]) for track in tracks]
    return {"tracks": made, "about": about, "texts": list(texts.numbers)}


def _about(
    tracks: Sequence[Track], texts: Texts
) -> tuple[dict[str, list[Any]], list[NDArray[np.int64]]]:
    """Return what is known of slices of one kind, each combination once, and their numbers."""
    names = tracks[0].about
    sizes = np.cumsum([len(track.rows) for track in tracks])[:-1]
    if not names:
        return {}, np.split(np.full(sum(len(track.rows) for track in tracks), -1), sizes)
    columns = {name: _values(name, tracks, texts) for name in names}
    frame = pd.DataFrame(columns)
    numbers = np.asarray(frame.groupby(list(names), sort=False).ngroup(), dtype=np.int64)
    first = frame.drop_duplicates()
    lists: dict[str, list[Any]] = {str(name): first[name].tolist() for name in names}
    lists["texts"] = [name for name in names if _is_text(tracks[0].rows[name])]
    return lists, np.split(numbers, sizes)


def _values(name: str, tracks: Sequence[Track], texts: Texts) -> NDArray[Any]:
    parts = [track.rows[name] for track in tracks]
    if _is_text(parts[0]):
        return np.concatenate([texts.codes(part) for part in parts])
    return np.concatenate([part.fillna(-1).to_numpy() for part in parts])


def _is_text(values: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(values.dtype)


def _columns(
    track: Track, origin_ns: int, texts: Texts, about: NDArray[np.int64]
) -> dict[str, Any]:
    start, end = (track.rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    # Of equal starts the longer one is around the other.
    order = np.lexsort((-end, start))
    start, end = start[order] - origin_ns, end[order] - origin_ns
    made: dict[str, Any] = {
        "rank": track.rank,
        "kind": track.kind,
        **track.where,
        "start_ns": np.diff(start, prepend=0).tolist(),
        "dur_ns": (end - start).tolist(),
        "name": texts.codes(track.rows["name"])[order].tolist(),
        "depth": depths(start.tolist(), end.tolist()),
    }
    if track.about:
        made["about"] = about[order].tolist()
    if "link" in track.rows:
        made["link"] = track.rows["link"].to_numpy(np.int64)[order].tolist()
    return made


def depths(start: Sequence[int], end: Sequence[int]) -> list[int]:
    """Return how many slices that have not ended are around each, in order of their starts.

    Slices of one depth never overlap, even where some end after the one around them.
    """
    found, open_until = [], list[int]()
    for begin, until in zip(start, end, strict=True):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        found.append(len(open_until))
        open_until.append(until)
    return found
