"""The runtime call that launched each kernel, by correlation id."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import Columns
from profkit.analyze.shared.glob_match import texts
from profkit.analyze.shared.step_windows import positions_by_repeat

Rows = NDArray[np.int64]
"""Positions in `runtime_calls`, -1 for none."""

CALLS = Columns("rank repeat tid name start_ns end_ns correlation")
"""Columns of `runtime_calls` that are read."""


def launching_calls(kernels: pd.DataFrame, runtime_calls: pd.DataFrame) -> Rows:
    """Return for each row of `kernels` the row of `runtime_calls` that launched it.

    They share a correlation id, which counts anew in each rank and repeat; where several calls
    do, it is the first. All kernels of a CUDA graph have the call that launched the graph.
    """
    found = np.full(len(kernels), -1, dtype=np.int64)
    calls = positions_by_repeat(runtime_calls)
    known = runtime_calls["correlation"].to_numpy(np.int64)
    start = runtime_calls["start_ns"].to_numpy(np.int64)
    wanted = kernels["correlation"].to_numpy(np.int64)
    for where, rows in positions_by_repeat(kernels).items():
        call = calls.get(where, np.empty(0, dtype=np.int64))
        # Ids below 1 stand for none.
        call = call[known[call] > 0]
        if not len(call):
            continue
        call = call[np.lexsort((start[call], known[call]))]
        first = call[np.searchsorted(known[call], wanted[rows]).clip(max=len(call) - 1)]
        found[rows] = np.where(known[first] == wanted[rows], first, -1)
    return found


def launches(kernels: pd.DataFrame, runtime_calls: pd.DataFrame) -> pd.DataFrame:
    """Return the call that launched each row of `kernels`, in their order.

    Columns call (its row), start_ns, end_ns and tid, -1 where it is not known, and name, then "".
    """
    call = launching_calls(kernels, runtime_calls)
    numbers = {
        name: np.append(runtime_calls[name].to_numpy(np.int64), -1)[call]
        for name in ("start_ns", "end_ns", "tid")
    }
    names = np.append(texts(runtime_calls["name"]), "")[call]
    return pd.DataFrame({"call": call, **numbers, "name": names})
