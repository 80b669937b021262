"""The time of operators by module and name, as those of a rank come in parts."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.division.first_uses import FirstUses
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import categorical

_ROWS_AT_ONCE = 1 << 18


class OperatorSums:
    """Sums over the operators of a rank that are charged with some time."""

    def __init__(self) -> None:
        """Know no operator so far."""
        self._keys: dict[tuple[str, str], int] = {}
        self._first: list[int] = []
        self._ns: Counter[int] = Counter()
        self._calls: Counter[int] = Counter()
        self._uses = FirstUses()

    def add(self, rank: RecordedRank, own: NDArray[np.int64]) -> None:
        """Add the `own` times of the operators of a rank, or of a part of it.

        Texts, or what is between, of millions of operators would take many times their memory.
        """
        module, name = (categorical(rank.ops[column]) for column in ("module", "name"))
        modules, names = (np.append(one.categories.to_numpy(object), "") for one in (module, name))
        ops = rank.ops["op"].to_numpy()
        for rows in _of_some_names(name.codes, own):
            key = (module.codes[rows].astype(np.int64) + 1) * len(names) + name.codes[rows] + 1
            distinct, first, number = np.unique(key, return_index=True, return_inverse=True)
            of_module, of_name = np.divmod(distinct, len(names))
            texts = zip(modules[of_module - 1], names[of_name - 1], strict=True)
            known = [self._number(*one) for one in zip(texts, ops[rows[first]], strict=True)]
            sums = calltree.sums(number, own[rows], len(known))
            self._ns.update(dict(zip(known, sums.tolist(), strict=True)))
            self._calls.update(dict(zip(known, np.bincount(number).tolist(), strict=True)))
            self._uses.add(rank, rows, own[rows], np.array(known, dtype=np.int32)[number])

    def _number(self, key: tuple[str, str], op: int) -> int:
        """Return the number of a module and name that an operator has, perhaps a new one."""
        number = self._keys.setdefault(key, len(self._keys))
        if number == len(self._first):
            self._first.append(op)
        # Threads come one after another, and parts have some of each.
        self._first[number] = min(self._first[number], op)
        return number

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return module, name, kernel, ns, ns of first uses and calls, by the first operator."""
        order = np.argsort(np.array(self._first, dtype=np.int64))
        keys = [*self._keys]
        module, name = (np.array([key[at] for key in keys], dtype=object)[order] for at in (0, 1))
        first_uses = self._uses.sums()
        ns, uses, calls = (
            np.array([of.get(number, 0) for number in order.tolist()], dtype=np.int64)
            for of in (self._ns, first_uses, self._calls)
        )
        return module, name, np.full(len(keys), "", dtype=object), ns, uses, calls


def _of_some_names(
    codes: NDArray[np.integer[Any]], own_ns: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows with time of their own, all of some names at a time, at least once.

    `codes` are the numbers of the names of all rows, -1 for none.
    """
    most = int(codes.max(initial=-1))
    counts = np.bincount(codes[own_ns > 0] + 1, minlength=most + 2)
    batch = np.cumsum(counts) // _ROWS_AT_ONCE
    for at in np.unique(batch):
        # A code of -1 is the last one.
        of_batch = np.roll(batch == at, -1)
        chosen = of_batch[codes]
        chosen &= own_ns > 0
        yield np.flatnonzero(chosen)
