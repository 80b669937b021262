"""The Python calls that causes and patterns look at: of a large trace there is no room for all."""

import re
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.calls_of_use import divides
from profkit.analyze.division.thread_waits import is_sleeping
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.large_table import Gathered, LargeTable
from profkit.analyze.shared.step_windows import WHERE, keyed, positions_by_repeat, runs
from profkit.patterns import patterns
from profkit.patterns.base import LOADS
from profkit.tables.python_frames import is_foreign

_PYTHON = "python_calls"


def kept_calls(python_calls: LargeTable, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of the program, those that anything looks for, and what is around a sleep.

    The caller of each is the nearest of them around it, whose time has that of those left out.
    """
    wanted = [one for one in patterns().values() if _PYTHON in one.parameters]
    if any(one.calls is None for one in wanted):
        return python_calls.whole()
    always = [one.calls for one in wanted if not one.without_gpu]
    is_looked_for = _containing([LOADS, *always])
    is_without_gpu = _containing(one.calls for one in wanted if one.without_gpu)
    with_gpu = set(keyed(kernels, WHERE, runs(kernels, WHERE)).itertuples(index=False, name=None))
    above = calltree.NearestAbove()
    found = Gathered()
    for rows in python_calls.portions():
        kept = named(rows["name"], _is_of_program) & (rows["kind"] != "module").to_numpy()
        kept |= divides(rows) | named(rows["name"], is_looked_for) | _around_sleeps(rows)
        on_cpu = named(rows["name"], is_without_gpu)
        for where, own in positions_by_repeat(rows).items() if on_cpu.any() else ():
            kept[own] |= on_cpu[own] & (where not in with_gpu)
        found.add(rows, kept, caller=above.of(rows, kept))
    return found.whole()


def _containing(expressions: Iterable[str | None]) -> Callable[[str], bool]:
    """Return what tells whether a name contains one of some `expressions`."""
    contains = re.compile("|".join(f"(?:{one})" for one in expressions) or r"(?!)").search
    return lambda name: contains(name) is not None


def _is_of_program(name: str) -> bool:
    return not is_foreign(name)


def _around_sleeps(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which calls contain one that sleeps, or may do so in the next portion.

    What the program has called, which then slept, is what readers are told.
    """
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    found = np.asarray(end > start[-1:].sum())
    sleeps = named(rows["name"], is_sleeping)
    for own in positions_by_repeat(rows).values() if sleeps.any() else ():
        numbers = (rows[name].to_numpy()[own] for name in ("call", "caller"))
        parent = calltree.positions(*numbers)
        # Damaged tables have calls that call themselves.
        parent = np.where(parent < np.arange(len(parent)), parent, -1)
        at = np.flatnonzero(sleeps[own])
        while len(at := np.unique(parent[at[at >= 0]])):
            found[own[at[at >= 0]]] = True
    return found
