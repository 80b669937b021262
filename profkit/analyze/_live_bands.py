"""Live memory of one GPU at instants of its history, by origin and stack."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

OTHERS = -1
"""Stack of the band of all that are not drawn by themselves."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bands:
    """Bands that lie on one another, those of one origin side by side, what stays lowest."""

    instants: Ints
    """Entries of the history, ascending."""

    live_bytes: Ints
    """Bytes of each band at each instant."""

    origins: list[str]
    origin: list[int]
    """Index in `origins` of each band."""

    stacks: list[str]
    lines: list[str]
    stack: list[int]
    """Index in `stacks` and `lines` of each band, or `OTHERS`."""

    peak: int
    """Index of the instant with the most."""

    peak_bytes: int


def bands(own: pd.DataFrame, points: int, most_stacks: int) -> Bands:
    """Return the bands of the allocations of one device, with the columns of `with_origins`."""
    instants = _instants(own, points)
    keys = ["origin", "stack"]
    numbers = own.groupby(keys, observed=True, sort=False).ngroup()
    group = np.asarray(numbers, dtype=np.int64)
    first = own.iloc[np.unique(group, return_index=True)[1]]
    live = levels(own, group, instants)
    most = np.argsort(-live.max(axis=1), kind="stable")[:most_stacks]
    single = np.zeros(len(live), dtype=np.bool_)
    single[most] = True
    origin, origins = pd.factorize(first["origin"].astype(object))
    by_origin = _order_of_origins(live, origin, len(origins))
    parts: list[tuple[int, int, Ints]] = []
    for at in by_origin:
        mine = np.flatnonzero(origin == at)
        rest = live[mine[~single[mine]]]
        drawn = sorted(mine[single[mine]], key=lambda index: -int(live[index].min()))
        parts += [(at, int(index), live[index]) for index in drawn]
        if rest.any():
            parts.append((at, OTHERS, rest.sum(axis=0)))
    shown = [index for _, index, _ in parts if index != OTHERS]
    total = live.sum(axis=0)
    return Bands(
        instants=instants,
        live_bytes=np.array([level for *_, level in parts], dtype=np.int64),
        origins=[str(origins[at]) for at in by_origin],
        origin=[by_origin.index(at) for at, *_ in parts],
        stacks=[str(text) for text in first["stack"].astype(object).iloc[shown]],
        lines=[str(text) for text in first["line"].astype(object).iloc[shown]],
        stack=[OTHERS if index == OTHERS else shown.index(index) for _, index, _ in parts],
        peak=int(np.argmax(total)),
        peak_bytes=int(total.max()),
    )


def levels(own: pd.DataFrame, group: Ints, instants: Ints) -> Ints:
    """Return the live bytes of each group of allocations after each of the instants."""
    size = own["size_bytes"].to_numpy(np.int64)
    start, end = own["start_event"].to_numpy(np.int64), own["end_event"].to_numpy(np.int64)
    change = np.zeros((int(group.max()) + 1, len(instants) + 1), dtype=np.int64)
    np.add.at(change, (group, np.searchsorted(instants, start)), size)
    freed = end >= 0
    np.subtract.at(change, (group[freed], np.searchsorted(instants, end[freed])), size[freed])
    live: Ints = np.cumsum(change, axis=1)[:, :-1]
    return live


def _instants(own: pd.DataFrame, points: int) -> Ints:
    """Return the entry with the most in each of `points` parts of the history, and both ends."""
    start, end = own["start_event"].to_numpy(np.int64), own["end_event"].to_numpy(np.int64)
    last = max(int(start.max()), int(end.max()), 0)
    every = np.arange(-1, last + 1, dtype=np.int64)
    total = levels(own, np.zeros(len(own), dtype=np.int64), every)[0]
    part = np.arange(len(every)) * points // len(every)
    begins = np.flatnonzero(np.diff(part, prepend=-1))
    highest = [
        at + int(np.argmax(total[at:until]))
        for at, until in zip(begins, [*begins[1:], len(every)], strict=True)
    ]
    return np.asarray(every[np.unique([0, *highest, len(every) - 1])])


def _order_of_origins(live: Ints, origin: Ints, count: int) -> list[int]:
    """Return the origins, what stays before what comes and goes."""
    sums = [live[origin == at].sum(axis=0) for at in range(count)]
    return sorted(
        range(count),
        key=lambda at: (-int(sums[at].min()), -float(np.median(sums[at])), -int(sums[at][-1])),
    )
