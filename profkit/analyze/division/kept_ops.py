"""The operators that the time of a rank without a GPU is divided by: there is no room for all."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.collective_calls import first_calls
from profkit.analyze.division.known_names import COLLECTING, COMPILING, computes
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.step_windows import positions_by_repeat
from profkit.patterns.unused_gpu import starts_device

COLUMNS = ("rank", "repeat", "op", "parent", "tid", "name", "kind", "start_ns", "end_ns")
"""What the division needs to know of an operator."""


def divides(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which operators of a portion change how the time of a rank without a GPU is divided.

    The time of one that computes inside of another one is that of the other.
    """
    found = np.ones(len(ops), dtype=np.bool_)
    for own in positions_by_repeat(ops).values():
        found[own] = ~_are_inner(ops.iloc[own])
    return found


def _are_inner(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which operators of one rank and repeat compute in one that does so and comes before.

    Not those whose names something looks for, nor those in one that may wait for a collective.
    """
    works = computes(ops) & ~matching(ops["name"], (*COLLECTING, *COMPILING))
    works &= ~starts_device(ops)
    op, parent = (ops[name].to_numpy(np.int64) for name in ("op", "parent"))
    around = calltree.positions(op, parent)
    end = ops["end_ns"].to_numpy(np.int64)
    encloses = works & (first_calls(ops) < 0)
    return np.asarray(works & (around >= 0) & encloses[around] & (end <= end[around]))
