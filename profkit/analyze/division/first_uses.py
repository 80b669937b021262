"""What calls of an operator take longer than others that do the same, at the same place each step.

The first operators of a step that use memory take its page faults, and find caches empty. Without
them others do, so that this time moves and is not gained.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import categorical, texts

_FEWEST = 3
"""Calls alike in a step, and steps, that are enough to know what is usual."""

_ALIKE = ("name", "input_shapes", "input_types")
_ROWS_AT_ONCE = 1 << 18
_NARROW = np.iinfo(np.int32).max
_NOTHING = -2
"""The code of "", which stands for no operator above as well."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of operators, a row each."""

    kind: NDArray[np.int32]
    """Alike are those of one name, shapes and types below the same operator."""

    place: NDArray[np.int32]
    """How many of its kind come before it in the step."""

    own_ns: NDArray[np.integer[Any]]
    key: NDArray[np.int32]
    """What it counts to, -1 for nothing."""


class FirstUses:
    """By how much calls are above what is usual, as those of a rank come in parts.

    What is longer in single steps is no first use: it counts as the median over the steps.
    """

    def __init__(self) -> None:
        """Know no call so far."""
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._outside = np.zeros(0, dtype=np.int64)
        self._calls: list[_Calls] = []
        self._sums: Counter[int] = Counter()

    def add(
        self,
        rank: RecordedRank,
        rows: NDArray[np.int64],
        own_ns: NDArray[np.int64],
        key: NDArray[np.int32],
    ) -> None:
        """Add operators of a part of a rank, or all of some names of a whole rank.

        `own_ns` are their own times, `key` what they count to.
        """
        if (rank.periods["step"] < 0).all():
            return
        shapes = _codes(rank.ops["input_shapes"].iloc[rows])
        known = shapes != _NOTHING
        rows, own_ns, key, shapes = rows[known], own_ns[known], key[known], shapes[known]
        ops = rank.ops[["name", "input_types", "step", "start_ns"]].iloc[rows]
        parents, step = rank.op_parents[rows], ops["step"].to_numpy(np.int64)
        above = np.where(parents >= 0, _codes(rank.ops["name"].iloc[parents]), _NOTHING)
        kind = _numbered(_codes(ops["name"]), above, shapes, _codes(ops["input_types"]))
        # In numpy: tables of so few rows, for each cause of each rank, take ten times as long.
        place = _places(_numbered(kind, step), ops["start_ns"].to_numpy(np.int64))
        if rank.is_part:
            kind = self._of_all_parts(rank, rows, kind)
            place += self._before(kind, step < 0)
        key = np.where(step >= 0, key, np.int32(-1))
        narrow = own_ns.astype(np.int32) if own_ns.max(initial=0) <= _NARROW else own_ns
        self._calls.append(_Calls(kind.astype(np.int32), place.astype(np.int32), narrow, key))
        if not rank.is_part:
            self._settle()

    def sums(self) -> Mapping[int, int]:
        """Return by how much all calls that count to a key are above what is usual, in ns."""
        self._settle()
        return self._sums

    def _of_all_parts(
        self, rank: RecordedRank, rows: NDArray[np.int64], kind: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the same kinds, numbered as in parts before this one."""
        _, first = np.unique(kind, return_index=True)
        some = rows[first]
        parents = rank.op_parents[some]
        above = np.where(parents >= 0, texts(rank.ops["name"], rows=parents), "")
        columns = (texts(rank.ops[name], rows=some) for name in _ALIKE)
        keys = zip(above.tolist(), *(column.tolist() for column in columns), strict=True)
        found = [self._kinds.setdefault(own, len(self._kinds)) for own in keys]
        return np.array(found, dtype=np.int64)[kind]

    def _before(self, kind: NDArray[np.int64], outside: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many of its kind outside of all steps earlier parts have, 0 in a step."""
        known = _sum(self._outside, np.zeros(len(self._kinds), dtype=np.int64))
        self._outside = _sum(known, np.bincount(kind[outside]))
        return np.where(outside, known[kind], 0)

    def _settle(self) -> None:
        """Add up what is known of calls, all that are alike."""
        counts = np.zeros(0, dtype=np.int64)
        for calls in self._calls:
            counts = _sum(counts, np.bincount(calls.kind))
        batch = np.cumsum(counts) // _ROWS_AT_ONCE
        for at in np.unique(batch):
            chosen = [(calls, batch[calls.kind] == at) for calls in self._calls]
            kind, place, own_ns, key = (
                np.concatenate([getattr(calls, field.name)[rows] for calls, rows in chosen])
                for field in fields(_Calls)
            )
            above = _above_usual(kind, place, own_ns.astype(np.int64))
            sums = calltree.sums(key, above, int(key.max(initial=-1)) + 1)
            self._sums.update(dict(enumerate(sums.tolist())))
        self._calls.clear()


def _above_usual(
    kind: NDArray[np.int32], place: NDArray[np.int32], own_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return by how much each call is above what is usual for its kind; 0 where not known."""
    spot = _numbered(kind, place)
    medians, sizes = _medians(spot, own_ns)
    of_spot = np.empty_like(medians, dtype=np.int64)
    of_spot[spot] = kind
    usual = np.flatnonzero(sizes >= _FEWEST)
    of_kind = _numbered(of_spot[usual])
    typical, places = _medians(of_kind, medians[usual])
    longer = np.zeros(len(medians))
    above_typical = np.maximum(medians[usual] - typical[of_kind], 0.0)
    longer[usual] = np.where(places[of_kind] >= _FEWEST, above_typical, 0.0)
    return np.minimum(longer[spot], own_ns).astype(np.int64)


def _sum(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of two arrays, the shorter of which ends with zeros."""
    long, short = (left, right) if len(left) > len(right) else (right, left)
    found = long.astype(np.int64)
    found[: len(short)] += short
    return found


def _codes(names: "pd.Series[str]") -> NDArray[np.int64]:
    """Return a number for each distinct one of the categorical `names`, `_NOTHING` for ""."""
    known = categorical(names)
    return np.where(known == "", _NOTHING, known.codes).astype(np.int64)


def _numbered(*keys: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return a number from 0 for each distinct combination of `keys`, of which none is below -2."""
    found = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        found, _ = pd.factorize(found * (int(key.max(initial=0)) + 3) + key + 2)
    return found


def _places(group: NDArray[np.int64], start_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows of the same `group` start before each row."""
    is_sorted = not (start_ns[1:] < start_ns[:-1]).any()
    order = np.argsort(group, kind="stable") if is_sorted else np.lexsort((start_ns, group))
    ordered = group[order]
    rows = np.arange(len(group))
    begins = np.r_[True, ordered[1:] != ordered[:-1]][: len(group)]
    found = np.empty_like(order)
    found[order] = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return found


def _medians(
    group: NDArray[np.int64], values: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the median of the `values` of each group, numbered from 0, and their number."""
    ordered = values[np.lexsort((values, group))]
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    return (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2, sizes
