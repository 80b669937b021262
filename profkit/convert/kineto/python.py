"""Calls of Python functions and modules: who called whom, which ran when, and whole stacks.

Rows are sorted by thread, start, and from the outside in. Loops run over threads and over levels
of the stack, never over rows.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.convert.kineto.events import Ints

_MODULE = "nn.Module: "
# Built-in functions are recorded with the address of an object, which differs from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SEPARATOR = ";"


def is_module(name: str) -> bool:
    """Return whether a row of this name is the call of a module."""
    return name.startswith(_MODULE)


def readable(name: str) -> str:
    """Return the name of a frame without address, without separator of frames, and in short."""
    return _ADDRESS.sub("", name.removeprefix(_MODULE)).replace(_SEPARATOR, ",")


def root_first(recorded: str) -> str:
    """Return a recorded call stack, which begins with the innermost frame, from the root."""
    return _SEPARATOR.join(reversed([each for each in recorded.split(_SEPARATOR) if each]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """The calls on all threads."""

    thread: Ints
    start: Ints
    end: Ints
    """At least 1 ns after the start, so that a call is open when it begins."""
    caller: Ints
    """Row of the call around each; -1 if there is none."""

    def at(self, thread: Ints, time: Ints) -> Ints:
        """Return the innermost call that is open on each thread at each time; -1 for none."""
        found = np.full(len(time), -1, dtype=np.int64)
        for each, first, last in _threads(self.thread):
            mine = np.flatnonzero(thread == each)
            before = np.searchsorted(self.start[first:last], time[mine], side="right")
            found[mine] = np.where(before > 0, first + before - 1, -1)
        return _open(found, self.caller, self.end, time)


def nested(thread: Ints, start: Ints, end: Ints) -> Calls:
    """Nest sorted rows by time on each thread.

    The depth of a row is the number of rows before it that have not ended. Its caller is the last
    row before it that is one less deep.
    """
    until = np.maximum(end, start + 1)
    row = np.arange(len(start))
    depth, begin = row.copy(), row.copy()
    for _, first, last in _threads(thread):
        ended = np.searchsorted(np.sort(until[first:last]), start[first:last], side="right")
        depth[first:last] -= first + ended
        begin[first:last] = first
    key = depth * (len(row) + 1) + row
    order = np.argsort(key)
    above = np.searchsorted(key[order], key - len(row) - 1) - 1
    caller = order[above.clip(min=0)]
    caller = np.where((depth > 0) & (above >= 0) & (caller >= begin), caller, -1)
    # Rows that cross instead of nesting may have pointed at one that is over.
    return Calls(thread=thread, start=start, end=until, caller=_open(caller, caller, until, start))


def _threads(thread: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each thread with the slice of its rows."""
    threads, first = np.unique(thread, return_index=True)
    # Without a thread there is one limit more than slices.
    limits = [*first.tolist(), len(thread)]
    yield from zip(threads.tolist(), limits, limits[1:], strict=False)


def _open(found: Ints, caller: Ints, end: Ints, time: Ints) -> Ints:
    """Climb from the rows `found` to those that have not ended at each `time`."""
    found = found.copy()
    rows = np.arange(len(found))
    while len(rows := rows[found[rows] >= 0]):
        rows = rows[end[found[rows]] <= time[rows]]
        found[rows] = caller[found[rows]]
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """The distinct paths through a tree: nodes that know the node above them."""

    node: Ints
    """Node of each row; -1 for none."""
    above: Ints
    """Node above each node; -1 for a root. It has a lower number."""
    name: Ints
    """Name of each node, as a number."""

    def texts(self, wanted: Ints, names: Sequence[str]) -> list[str]:
        """Return the path of each of the nodes `wanted`: its names from the root."""
        needed = np.zeros(len(self.above) + 1, dtype=np.bool_)
        needed[wanted] = True
        level = np.unique(wanted)
        while len(level := level[level >= 0]):
            needed[level] = True
            level = np.unique(self.above[level])
        texts = {-1: ""}
        for node in np.flatnonzero(needed[:-1]).tolist():
            around, own = texts[int(self.above[node])], names[self.name[node]]
            texts[node] = f"{around}{_SEPARATOR}{own}" if around else own
        return [texts[node] for node in wanted.tolist()]


def paths(caller: Ints, name: Ints, counted: NDArray[np.bool_]) -> Paths:
    """Return the paths of rows through those that are `counted`; others are where their caller is.

    `name` is the number of each row's name.
    """
    names = int(name.max()) + 1 if len(name) else 1
    node = np.full(len(caller) + 1, -1, dtype=np.int64)  # the last is that of row -1
    above, own = [], []
    size = 0
    for rows in _levels(caller):
        around = node[caller[rows]]
        new = counted[rows]
        distinct, which = np.unique(
            (around[new] + 1) * names + name[rows[new]], return_inverse=True
        )
        node[rows] = around
        node[rows[new]] = size + which
        above.append(distinct // names - 1)
        own.append(distinct % names)
        size += len(distinct)
    nothing = np.empty(0, dtype=np.int64)
    return Paths(
        node=node[:-1],
        above=np.concatenate([nothing, *above]),
        name=np.concatenate([nothing, *own]),
    )


def _levels(caller: Ints) -> Iterator[Ints]:
    """Yield the rows without a caller, then those that these call, and so on."""
    depth = (caller >= 0).astype(np.int64)
    jump = caller
    while (jump >= 0).any():  # each round looks twice as far up
        depth += np.where(jump >= 0, depth[jump], 0)
        jump = np.where(jump >= 0, jump[jump], -1)
    order = np.argsort(depth, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
