"""Which forward operator a backward operator computes the gradient of.

A forward operator that makes a node of the autograd graph carries that node's sequence number; the
node's backward operator carries it too, and PyTorch's own number of the forward thread. Sequence
numbers count on each thread by itself.
"""

import numpy as np

from profkit.convert.kineto.events import Ints


def forward_rows(*, thread: Ints, start: Ints, sequence: Ints, forward_tid: Ints) -> Ints:
    """Return for each operator the row of its forward operator; -1 for those that carry none.

    Several operators may begin with a number before one makes the node: the last is the one, as
    in PyTorch's ``generateForwardBackwardLinks``.
    """
    result = np.full(len(start), -1, dtype=np.int64)
    forward = np.flatnonzero((sequence >= 0) & (forward_tid <= 0))
    backward = np.flatnonzero((sequence >= 0) & (forward_tid > 0))
    for number in sorted({*forward_tid[backward].tolist()}):
        mine = backward[forward_tid[backward] == number]
        # PyTorch's numbers of threads are not the system's: the one with most matches is it.
        candidates = [
            _last_before(forward[thread[forward] == each], mine, start, sequence)
            for each in sorted({*thread[forward].tolist()})
        ]
        if candidates:
            result[mine] = max(candidates, key=lambda found: int((found >= 0).sum()))
    return result


def _last_before(forward: Ints, backward: Ints, start: Ints, sequence: Ints) -> Ints:
    """Return for each of `backward` the last of `forward` with its number that began before it."""
    rows = forward[np.lexsort((start[forward], sequence[forward]))]
    first = np.searchsorted(sequence[rows], sequence[backward], side="left")
    at = np.searchsorted(sequence[rows], sequence[backward], side="right") - 1
    later = np.arange(len(backward))
    while len(later := later[at[later] >= first[later]]):
        later = later[start[rows[at[later]]] >= start[backward[later]]]
        at[later] -= 1
    return np.where(at >= first, rows[at], -1) if len(rows) else at
