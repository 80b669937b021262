"""What calls of an operator take longer than others that do the same, at the same place each step.

The first operators of a step that use memory take its page faults, and find caches empty. Without
them others do, so that this time moves and is not gained.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared.glob_match import categorical

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 3
"""Calls alike in a step, and steps, that are enough to know what is usual."""

_ALIKE = ("name", "input_shapes", "input_types")
_ROWS_AT_ONCE = 1 << 18
_NOTHING = -2
"""The code of "", which stands for no operator above as well."""


def of_some_names(
    codes: NDArray[np.integer[Any]], own_ns: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows with time of their own, all of some names at a time, at least once.

    `codes` are the numbers of the names of all rows, -1 for none.
    """
    most = int(codes.max(initial=-1))
    counts = np.bincount(codes[own_ns > 0] + 1, minlength=most + 2)
    batch = np.cumsum(counts) // _ROWS_AT_ONCE
    for at in np.unique(batch):
        # A code of -1 is the last one.
        of_batch = np.roll(batch == at, -1)
        chosen = of_batch[codes]
        chosen &= own_ns > 0
        yield np.flatnonzero(chosen)


def above_usual(
    rank: RecordedRank, rows: NDArray[np.int64], own_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return by how much each of these operators is above what is usual; 0 where not known.

    Alike are calls of one name, shapes and types below the same operator. What is longer in single
    steps is no first use: it counts as the median over the steps. `own_ns` are their own times.
    """
    ops = rank.ops[[*_ALIKE, "step", "start_ns"]].iloc[rows]
    parents, step = rank.op_parents[rows], ops["step"].to_numpy(np.int64)
    shapes = _codes(ops["input_shapes"])
    above = np.where(parents >= 0, _codes(rank.ops["name"].iloc[parents]), _NOTHING)
    kind = _numbered(_codes(ops["name"]), above, shapes, _codes(ops["input_types"]))
    # In numpy: tables of so few rows, for each cause of each rank, take ten times as long.
    order = np.lexsort((ops["start_ns"].to_numpy(np.int64), step, kind))
    place = np.empty_like(order)
    place[order] = _places(kind[order], step[order])
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
    is_known = (shapes != _NOTHING) & (step >= 0)
    return np.where(is_known, np.minimum(longer[spot], own_ns), 0.0).astype(np.int64)


def _codes(texts: "pd.Series[str]") -> NDArray[np.int64]:
    """Return a number for each distinct one of the categorical `texts`, `_NOTHING` for ""."""
    known = categorical(texts)
    return np.where(known == "", _NOTHING, known.codes).astype(np.int64)


def _numbered(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number from 0 for each distinct combination of `keys`."""
    order = np.lexsort(keys)
    number = np.empty_like(order)
    number[order] = np.cumsum(_begins(*(key[order] for key in keys))) - 1
    return number


def _begins(*keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows differ from the one before in any of `keys`."""
    begins = np.ones(len(keys[0]), dtype=np.bool_)
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return begins


def _places(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows of the same `keys`, which lie together, are before each row."""
    rows = np.arange(len(keys[0]))
    return rows - np.maximum.accumulate(np.where(_begins(*keys), rows, 0))


def _medians(
    group: NDArray[np.int64], values: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the median of the `values` of each group, numbered from 0, and their number."""
    ordered = values[np.lexsort((values, group))]
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    return (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2, sizes
