"""Which call of the host launched each piece of device work: shared by analyses of both."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import Columns
from profkit.analyze.shared.step_windows import WHERE

Rows = NDArray[np.int64]
"""Positions in `runtime_calls`, -1 for none."""

CALLS = Columns("rank repeat tid name start_ns end_ns correlation")
"""What is read of `runtime_calls`."""


def launching_calls(kernels: pd.DataFrame, runtime_calls: pd.DataFrame) -> Rows:
    """Return for each row of `kernels` the row of `runtime_calls` that launched it.

    They share a correlation id, which counts anew in each rank and repeat; where several calls
    do, it is the first. All kernels of a CUDA graph have the call that launched the graph.
    """
    found = np.full(len(kernels), -1, dtype=np.int64)
    calls = runtime_calls.groupby(WHERE, observed=True).indices
    known = runtime_calls["correlation"].to_numpy(np.int64)
    start = runtime_calls["start_ns"].to_numpy(np.int64)
    wanted = kernels["correlation"].to_numpy(np.int64)
    for where, mine in kernels.groupby(WHERE, observed=True).indices.items():
        rows = np.asarray(mine, dtype=np.int64)
        here = np.asarray(calls.get(where, ()), dtype=np.int64)
        # Ids below 1 stand for none.
        here = here[known[here] > 0]
        if not len(here):
            continue
        here = here[np.lexsort((start[here], known[here]))]
        place = np.searchsorted(known[here], wanted[rows]).clip(max=len(here) - 1)
        found[rows] = np.where(known[here[place]] == wanted[rows], here[place], -1)
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
    names = np.append(runtime_calls["name"].astype(object).to_numpy(), "")[call]
    return pd.DataFrame({"call": call, **numbers, "name": names})
