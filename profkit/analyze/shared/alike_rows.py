"""Rows of a matrix in an order in which those that are alike lie together."""

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3
# Distances of all pairs take 16 MB.
_MOST = 2000
# Turning the branches of the tree takes the square of the rows and more: 10 ms for so many.
_MOST_TURNED = 256


def alike_order(values: NDArray[np.float64]) -> list[int]:
    """Return the positions of rows, those that are alike together; empty for too few or too many.

    The rows are the leaves of a tree of clusters, whose distance is the average over their pairs.
    What is compared is how far a value is from the median of its column, so that a step in which
    all rows are slow tells nothing. A column that varies much more than most counts at most twice
    as much as these, and one that hardly varies next to nothing. NaN is taken for the median.
    """
    if not _FEWEST <= len(values) <= _MOST:
        return []
    # Loads longer than the order of most matrices takes.
    from scipy.cluster.hierarchy import leaves_list, linkage  # noqa: PLC0415

    known = values[:, ~np.isnan(values).all(axis=0)]
    if not known.size:
        return []
    apart = np.nan_to_num(known - np.nanmedian(known, axis=0))
    spread = apart.std(axis=0)
    scale = spread + np.median(spread)
    scaled = apart[:, scale > 0] / scale[scale > 0]
    if not scaled.size:
        return []
    tree = linkage(scaled, method="average", optimal_ordering=len(values) <= _MOST_TURNED)
    return [int(row) for row in leaves_list(tree)]
