"""Threads that end steps by turns, as those of a server do: read as if they were one."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column

AT_ONCE = "Several threads call the model at the same time: a step holds parts of several calls."
"""A note for readers."""

_MOST_AT_ONCE = 0.1
"""Of the looks at which a thread worked: where more saw several, these are no turns."""


class Look(NamedTuple):
    """Where a thread was at an instant; the columns of ``python_samples``."""

    tid: int
    time_ns: int
    cpu_ns: int
    """CPU time until then; -1 if that is unknown, like the next."""

    queued_ns: int
    stack: int
    """Number of the stack."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns:
    """Threads that ended steps, and the looks at them."""

    threads: frozenset[int]
    into: int
    """The one that all of them count as."""

    are_alone: bool
    """Whether hardly ever two of them work at once."""

    own: list[Look]
    """Looks at the thread whose turn it was, with CPU times as of a single thread."""

    others: list[Look]
    """Those at all other threads, and at these while they waited for their turn."""

    def joined(self, tids: Column, are_steps: NDArray[np.bool_] | np.bool_) -> Column:
        """Return the thread that each row of the trace counts as.

        Of threads that work at once these are only the ranges of steps, which are not inside one
        another as their operators would be.
        """
        is_one = np.isin(tids, [*self.threads])
        return np.where(is_one if self.are_alone else is_one & are_steps, self.into, tids)


def turns(
    looks: Iterable[Look],
    ends: Sequence[tuple[int, int]],
    first: int,
    waits: Callable[[int], bool],
) -> Turns:
    """Divide the looks at all threads, of which `ends` says when which one ended a step.

    `first` is the thread of the steps before. `waits` tells whether a thread of this stack does
    nothing.
    """
    threads = frozenset({first, *(tid for _, tid in ends)})
    times = [time_ns for time_ns, _ in ends]
    own: list[Look] = []
    others: list[Look] = []
    some = several = 0
    used = _Used()
    for time_ns, rows in groupby(sorted(looks, key=attrgetter("time_ns")), attrgetter("time_ns")):
        at_once = [*rows]
        known = [look for look in at_once if look.tid in threads]
        at_work = [look for look in known if not waits(look.stack)]
        turn = min(bisect_right(times, time_ns), len(ends) - 1)
        ender = ends[turn][1]
        some += bool(at_work)
        # The one that ended the step before may still be about to send its answer.
        before = ends[turn - 1][1] if turn else first
        several += len({look.tid for look in at_work} - ({before} - {ender})) > 1
        # One may wait in its turn. Otherwise those that wait say nothing of it, nor has it begun.
        in_turn = [look for look in known if look.tid == ender] or at_work[-1:]
        own += (used.added_up(look, {look.tid: look for look in known}) for look in in_turn)
        others += (look for look in at_once if look not in in_turn)
    are_alone = several <= _MOST_AT_ONCE * some
    return Turns(threads=threads, into=first, are_alone=are_alone, own=own, others=others)


class _Used:
    """Adds up what threads used in their turns."""

    def __init__(self) -> None:
        self.time_ns = self.cpu_ns = self.queued_ns = 0
        self.tid = 0
        self.before: dict[int, Look] = {}

    def added_up(self, look: Look, at_once: Mapping[int, Look]) -> Look:
        """Return `look` with the times of all turns so far; `at_once` are looks at the threads.

        Where the turn has changed since the last one, both threads have used the time between.
        """
        if look.cpu_ns >= 0 and self.time_ns:
            most = look.time_ns - self.time_ns
            since = [
                self._since(one) for tid, one in at_once.items() if tid in {self.tid, look.tid}
            ]
            self.cpu_ns += min(sum(cpu_ns for cpu_ns, _ in since), most)
            self.queued_ns += min(sum(queued_ns for _, queued_ns in since), most)
        self.time_ns, self.tid = look.time_ns, look.tid
        self.before |= at_once
        cpu_ns, queued_ns = (self.cpu_ns, self.queued_ns) if look.cpu_ns >= 0 else (-1, -1)
        return look._replace(cpu_ns=cpu_ns, queued_ns=queued_ns)

    def _since(self, look: Look) -> tuple[int, int]:
        """Return what a thread used and how long it was ready since the last look at it."""
        # One that was not seen before has begun since then.
        before = self.before.get(look.tid, look._replace(cpu_ns=0, queued_ns=0))
        return (
            max(look.cpu_ns - max(before.cpu_ns, 0), 0),
            max(look.queued_ns - max(before.queued_ns, 0), 0),
        )
