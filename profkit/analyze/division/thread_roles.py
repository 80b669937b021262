"""What the CPU threads of a rank are for, as its rows come in parts."""

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.glob_match import matching

MARKS = ("ProfilerStep#*",)
"""Ranges of steps, which the program's own thread has."""


class ThreadRoles:
    """Threads with operators or calls: the program's own, and those of the backward pass."""

    def __init__(self) -> None:
        """Know no thread so far."""
        self._marks: Counter[int] = Counter()
        self._ops: Counter[int] = Counter()
        self._calls: Counter[int] = Counter()
        self._backward: set[int] = set()

    def add(self, ops: pd.DataFrame, calls: pd.DataFrame) -> None:
        """Count the next operators and runtime calls of the rank."""
        threads = ops["tid"].to_numpy(np.int64)
        self._marks.update(_counted(threads[matching(ops["name"], MARKS)]))
        self._ops.update(_counted(threads))
        self._calls.update(_counted(calls["tid"].to_numpy(np.int64)))
        self._backward.update(_counted(threads[(ops["forward"] >= 0).to_numpy()]))

    @property
    def main(self) -> int:
        """The thread of the program: of the steps, or else of most operators, or of launches."""
        for counts in (self._marks, self._ops, self._calls):
            if counts:
                return max(sorted(counts), key=counts.__getitem__)
        return -1

    @property
    def threads(self) -> list[int]:
        """The program's thread, then all others with operators, as they come up."""
        return list(dict.fromkeys([self.main, *self._ops]))

    def names(self) -> dict[int, str]:
        """Return the threads, the program's own first, each with its role."""
        found = sorted({*self._ops, *self._calls})
        roles = {tid: "backward" if tid in self._backward else "" for tid in found}
        if self.main in roles:
            roles = {self.main: "main"} | {tid: roles[tid] for tid in found if tid != self.main}
        return roles


def _counted(threads: NDArray[np.int64]) -> dict[int, int]:
    codes, known = pd.factorize(threads)
    return dict(zip(known.tolist(), np.bincount(codes).tolist(), strict=True))
