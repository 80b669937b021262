"""The Python calls that causes and patterns look at: of a large trace there is no room for all."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.calls_of_use import divides
from profkit.analyze.shared.calltree import NearestAbove
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.large_table import LargeTable, joined
from profkit.analyze.shared.step_windows import positions_by_repeat
from profkit.patterns import patterns
from profkit.tables.python_frames import is_foreign

_PYTHON = "python_calls"


def kept_calls(python_calls: LargeTable) -> pd.DataFrame:
    """Return the calls of the program, what it calls, and those that anything looks for by name.

    The caller of each is the nearest of them around it, whose time has that of those left out.
    """
    is_looked_for = _looked_for()
    if is_looked_for is None:
        return python_calls.whole()
    above, by_program = NearestAbove(), _Called()
    found = []
    for rows in python_calls.portions():
        of_program = named(rows["name"], _is_of_program) & (rows["kind"] != "module").to_numpy()
        kept = divides(rows) | of_program | named(rows["name"], is_looked_for)
        kept |= by_program.of(rows, of_program)
        callers = above.of(rows, kept)
        found.append(rows[kept].assign(caller=callers[kept]))
    return joined(found)


def _looked_for() -> Callable[[str], bool] | None:
    """Return what tells whether a pattern looks for a name, None if one looks at all calls."""
    wanted = [one.calls for one in patterns().values() if _PYTHON in one.parameters]
    known = [f"(?:{calls})" for calls in wanted if calls is not None]
    if len(known) < len(wanted):
        return None
    contains = re.compile("|".join(known) or r"(?!)").search
    return lambda name: contains(name) is not None


def _is_of_program(name: str) -> bool:
    return not is_foreign(name)


class _Called:
    """Which calls are made by some others, as the rows of a table come in portions."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], NDArray[np.bool_]] = {}

    def of(self, calls: pd.DataFrame, callers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which rows are called by one of the `callers`, of these rows or earlier ones."""
        found = np.zeros(len(calls), dtype=np.bool_)
        for where, rows in positions_by_repeat(calls).items():
            call, caller = (calls[name].to_numpy()[rows] for name in ("call", "caller"))
            # The last entry stands for no caller.
            known = self._known.get(where, np.zeros(1, dtype=np.bool_))
            known = np.pad(known, (0, max(2 + max(call.max(), caller.max()) - len(known), 0)))
            known[call] = callers[rows]
            self._known[where] = known
            found[rows] = known[caller]
        return found
