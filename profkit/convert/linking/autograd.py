"""Which forward operator a backward operator computes the gradient of.

A forward operator that makes a node of the autograd graph carries that node's sequence number; the
node's backward operator carries it too, and PyTorch's own number of the forward thread. Sequence
numbers count on each thread by itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn, slices
from profkit.convert.columns.values import Ints
from profkit.convert.linking.lookup import at_or
from profkit.convert.linking.ordered import ranges
from profkit.convert.linking.windows import Threads, threads_of


def forward_rows(ops: Columns) -> DiskColumn:
    """Return for each operator the row of its forward operator; -1 for those that carry none.

    Several operators may begin with a number before one makes the node: the last is the one, as
    in PyTorch's ``generateForwardBackwardLinks``.
    """
    none = (np.full(rows.stop - rows.start, -1) for rows in slices(ops.count))
    found = DiskColumn.of(ops.spill, ops.count, none)
    threads = threads_of([ops])
    numbers = ranges(part["sequence"][part["sequence"] >= 0] for part in ops.parts())

    def links() -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
        return chain.from_iterable(_links(_nodes(ops, threads, *between)) for between in numbers)

    found_once = [*links()] if len(numbers) == 1 else None
    matches = Counter[tuple[int, int]]()
    for of, _, forward in found_once or links():
        matches[of] += int((forward >= 0).sum())
    # PyTorch's numbers of threads are not the system's: the one with most matches is it.
    best = dict(sorted(matches, key=lambda of: (matches[of], -of[1])))
    for (number, thread), backward, forward in found_once or links():
        if best[number] == thread:
            found.fill(backward, forward)
    return found


def _nodes(ops: Columns, threads: Threads, low: int, high: int) -> dict[str, Column]:
    """Return the operators with a sequence number from `low` on and below `high`."""
    found = []
    for rows, part in zip(slices(ops.count), ops.parts(), strict=True):
        sequence = part["sequence"]
        own = np.flatnonzero((sequence >= max(low, 0)) & (sequence < high))
        nodes = ops.select(rows.start + own)
        found.append(
            {
                "row": rows.start + own,
                "thread": threads.numbers(nodes["pid"], nodes["tid"]),
                **{name: nodes[name] for name in ("start", "sequence", "forward_tid")},
            }
        )
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _links(nodes: Mapping[str, Column]) -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
    """Yield the links if PyTorch's number of a thread is that of some thread, for all of both.

    With the numbers come the rows of the backward operators, and that of the forward operator of
    each; -1 for none.
    """
    makes = nodes["forward_tid"] <= 0
    forward, backward = np.flatnonzero(makes), np.flatnonzero(~makes)
    for number in sorted({*nodes["forward_tid"][backward].tolist()}):
        mine = backward[nodes["forward_tid"][backward] == number]
        for thread in sorted({*nodes["thread"][forward].tolist()}):
            own = forward[nodes["thread"][forward] == thread]
            found = _last_before(own, mine, nodes["start"], nodes["sequence"])
            yield (number, thread), nodes["row"][mine], at_or(nodes["row"], found)


def _last_before(forward: Ints, backward: Ints, start: Ints, sequence: Ints) -> Ints:
    """Return for each of `backward` the last of `forward` with its number that began before it."""
    rows = forward[np.lexsort((start[forward], sequence[forward]))]
    first = np.searchsorted(sequence[rows], sequence[backward], side="left")
    low, high = first.copy(), np.searchsorted(sequence[rows], sequence[backward], side="right")
    searched = np.arange(len(backward))
    # Mostly one has the number; where steps count anew or a stranger wrote it, all may have it.
    while len(searched := searched[low[searched] < high[searched]]):
        middle = (low[searched] + high[searched]) // 2
        is_before = start[rows[middle]] < start[backward[searched]]
        low[searched[is_before]] = middle[is_before] + 1
        high[searched[~is_before]] = middle[~is_before]
    return np.where(low > first, at_or(rows, low - 1), -1)
