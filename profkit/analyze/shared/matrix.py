"""Matrices that the page draws: values by row and column, few enough to travel in a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.alike_rows import alike_order
from profkit.analyze.shared.representative_ranks import representative

_UNITS = ((10**10, "ms", 10**6), (10**6, "us", 10**3), (0, "ns", 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One quantity in ns that a matrix can show."""

    title: str
    group: str
    """Heading below which the reader chooses it."""

    times: pd.DataFrame
    """Columns rank, step and ``time_ns``; several rows of a place are averaged."""


def by_step(layers: Sequence[Layer], most_rows: int, most_cells: int) -> dict[str, Any]:
    """Return the matrix of ranks and steps with all `layers`.

    Of more than `most_rows` ranks there are those whose first layer differs most from the median
    rank and, for the other half, evenly chosen ones. Steps are averaged in parts of equal length
    where a layer would have more than `most_cells`.
    """
    steps = np.unique(np.concatenate([layer.times["step"].to_numpy() for layer in layers]))
    ranks = np.unique(np.concatenate([layer.times["rank"].to_numpy() for layer in layers]))
    chosen = representative(layers[0].times, ranks, most_rows)
    count = min(len(steps), max(most_cells // max(len(chosen), 1), 1))
    part = np.arange(len(steps)) * count // max(len(steps), 1)
    first = [int(steps[part == index][0]) for index in range(count)]
    last = [int(steps[part == index][-1]) for index in range(count)]
    return {
        "rows": {"of": "rank", "names": chosen, "total": len(ranks)},
        "columns": {"of": "step", "names": first, "last": last},
        "layers": [
            _layer(layer, chosen, part[np.searchsorted(steps, layer.times["step"])], count)
            for layer in layers
        ],
    }


def _layer(
    layer: Layer, ranks: Sequence[int], column: NDArray[np.int64], columns: int
) -> dict[str, Any]:
    placed = layer.times.assign(column=column)
    means = placed.pivot_table(index="rank", columns="column", values="time_ns", observed=True)
    means = means.reindex(index=pd.Index(ranks), columns=pd.RangeIndex(columns))
    return {"title": layer.title, "group": layer.group} | values(means)


def values(means: pd.DataFrame) -> dict[str, Any]:
    """Return the unit that suits times in ns, and in it all of `means`, row after row.

    Where there are rows to group, ``alike`` has their positions with those that are alike together.
    """
    largest = float(np.nanmax(means.to_numpy(), initial=0))
    unit, size = next((unit, size) for least, unit, size in _UNITS if largest >= least)
    scaled = (means / size).round()
    alike = alike_order(means.to_numpy(np.float64))
    cells = scaled.to_numpy().ravel()
    return {
        "unit": unit,
        "columns": len(means.columns),
        "values": [None if np.isnan(value) else int(value) for value in cells],
        **({"alike": alike} if alike else {}),
    }
