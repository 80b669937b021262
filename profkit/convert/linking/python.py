"""Calls of Python functions and modules: which called which, and when.

Rows are those of one thread, sorted by start, and from the outside in. Loops run over levels of
the stack, never over rows.
"""

import re
from dataclasses import dataclass

import numpy as np

from profkit.convert.columns.values import Ints
from profkit.convert.linking.tree import enclosing, refuse_deep
from profkit.tables.tree_paths import SEPARATOR

_MODULE = "nn.Module: "
# Built-in functions are recorded with the address of an object, which differs from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def is_module(name: str) -> bool:
    """Return whether a row of this name is the call of a module."""
    return name.startswith(_MODULE)


def readable(name: str) -> str:
    """Return the name of a frame without address, without separator of frames, and in short."""
    return _ADDRESS.sub("", name.removeprefix(_MODULE)).replace(SEPARATOR, ",")


def root_first(recorded: str) -> str:
    """Return a recorded call stack, which begins with the innermost frame, from the root."""
    return SEPARATOR.join(reversed([frame for frame in recorded.split(SEPARATOR) if frame]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """The calls on one thread."""

    start: Ints
    end: Ints
    """At least 1 ns after the start, so that a call is open when it begins."""
    caller: Ints
    """Row of the call around each; -1 if there is none."""
    depth: Ints
    """Number of calls that are open when each begins, more than when its caller does."""

    def at(self, time: Ints) -> Ints:
        """Return the innermost call that is open at each time; -1 for none."""
        last = np.searchsorted(self.start, time, side="right") - 1
        return _open(last, self.caller, self.end, time)


def nested(start: Ints, end: Ints) -> Calls:
    """Nest sorted rows by time; raises `InputError` if more do than any program has."""
    until = np.maximum(end, start + 1)
    around, depth = enclosing(start, until, np.ones(len(start), dtype=np.bool_))
    # The text of a path is as long as the path, and there is one for each level.
    refuse_deep(int(depth.max(initial=0)))
    # Rows that cross instead of nesting may have pointed at one that is over.
    caller = _open(around, around, until, start)
    return Calls(start=start, end=until, caller=caller, depth=depth)


def _open(found: Ints, caller: Ints, end: Ints, time: Ints) -> Ints:
    """Climb from the rows `found` to those that have not ended at each `time`."""
    found = found.copy()
    rows = np.arange(len(found))
    while len(rows := rows[found[rows] >= 0]):
        rows = rows[end[found[rows]] <= time[rows]]
        found[rows] = caller[found[rows]]
    return found
