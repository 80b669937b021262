"""Which of many Python calls the division of time looks at, so that no others have to be kept."""

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.known_names import PYTHON_NAMES
from profkit.analyze.division.thread_waits import is_waiting
from profkit.analyze.shared.glob_match import matching, named
from profkit.analyze.shared.step_windows import WHERE, runs

_NEVER = np.iinfo(np.int64).min


def divides(calls: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows of `python_calls` change how the time of a rank is divided.

    Those are calls with a name that is looked for, and the outermost ones, which say whether the
    CPU was recorded.
    """
    found = matching(calls["name"], PYTHON_NAMES) | named(calls["name"], is_waiting)
    start, end = (calls[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    is_function = (calls["kind"] == "function").to_numpy()
    for first, last in pairwise([*runs(calls, [*WHERE, "tid"]).tolist(), len(calls)]):
        own = slice(first, last)
        reach = np.maximum.accumulate(np.where(is_function[own], end[own], _NEVER))
        is_inside = end[own] <= np.r_[_NEVER, reach[:-1]]
        # Only in the order of time it is one call that is around.
        found[own] |= ~is_inside | (np.diff(start[own]) < 0).any()
    return found
