"""How much of a peak the matrices of scores of attention hold, also those that no line made."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._memory_remedies import OF_ATTENTION, OF_LOSS
from profkit.tables.tree_paths import SEPARATOR

_LINE = re.compile(r":\d+\)$")
_OF_PYTHON = re.compile(r"\.py:\d+\)$")
_SMALL = 0.25
"""Of the largest matrix: rows and single values of a softmax are no matrices of scores."""


def scores_bytes(own: pd.DataFrame, live: pd.DataFrame) -> int:
    """Return the bytes of scores among the `live` allocations of a device, of all its `own`.

    They are what a line of a softmax makes, but that of a loss, and in the function around it what
    is as large, or half or twice, in another type. So are blocks of backward without a line of
    their own, unless other lines make some that are as large.
    """
    softmax, around = _functions(own)
    of_softmax = own["size_bytes"].to_numpy(np.int64)[_is_of(own, softmax)]
    if not len(of_softmax):
        return 0
    functions = softmax | around
    sizes = np.unique(of_softmax[of_softmax >= _SMALL * of_softmax.max()])
    of_attention = _is_of(own, functions)
    others = own["size_bytes"].to_numpy(np.int64)[~of_attention & (own["line"] != "").to_numpy()]
    size = live["size_bytes"].to_numpy(np.int64)
    in_function = _is_of(live, functions)
    in_function &= np.isin(size, np.concatenate((sizes // 2, sizes, 2 * sizes)))
    without_line = (live["line"] == "").to_numpy() & (live["origin"] == "backward").to_numpy()
    without_line &= np.isin(size, np.setdiff1d(sizes, others))
    return int(size[in_function | without_line].sum())


def _functions(own: pd.DataFrame) -> tuple[set[str], set[str]]:
    """Return the functions that have a line of a softmax, and those that call them."""
    softmax, around = set[str](), set[str]()
    pairs = own[["line", "stack"]].drop_duplicates()
    for line, stack in zip(*(pairs[name].astype(object) for name in pairs), strict=True):
        if not OF_ATTENTION.search(line) or OF_LOSS.search(line):
            continue
        softmax.add(_LINE.sub("", line))
        before = stack.rpartition(line)[0].split(SEPARATOR)
        calling = next((frame for frame in reversed(before) if _OF_PYTHON.search(frame)), "")
        around |= {_LINE.sub("", calling)} if calling else set()
    return softmax, around


def _is_of(rows: pd.DataFrame, functions: set[str]) -> NDArray[np.bool_]:
    """Tell which rows have a line of one of the `functions`."""
    lines = rows["line"].astype("category").cat
    named = [_LINE.sub("", str(line)) in functions for line in lines.categories]
    return np.array([*named, False])[lines.codes.to_numpy()]
