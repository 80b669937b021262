"""Where CPU threads spent the time of causes: in which functions, operators and modules."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import charges, cpu, gpu, places
from profkit.analyze.division.operator_sums import OperatorSums
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import categorical

OF_KERNELS = (gpu.COMPUTING, gpu.EXPOSED, "exposed_copies", "exposed_sets")
"""Causes of the time of a GPU, and all below them."""


@dataclass(kw_only=True)
class Sums:
    """Time by a label of rows, in ns, and how many rows have any."""

    ns: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, labels: "NDArray[np.object_] | pd.Categorical", time: NDArray[np.int64]) -> None:
        """Add the `time` of some rows."""
        rows = time > 0
        numbers, distinct = pd.factorize(labels[rows])
        known = [*map(str, distinct)]
        sums = calltree.sums(numbers, time[rows], len(known))
        self.ns.update(dict(zip(known, sums.tolist(), strict=True)))
        counts = np.bincount(numbers, minlength=len(known))
        self.calls.update(dict(zip(known, counts.tolist(), strict=True)))


@dataclass(kw_only=True)
class Spent:
    """Where threads spent the time of one cause."""

    lines: list[places.Place]
    """Of Python functions, if any was recorded: none of operators."""

    by_place: Counter[str] = field(default_factory=Counter)
    names: Sums = field(default_factory=Sums)
    """Of operators that compute."""

    of_largest: list[places.Place] = field(default_factory=list)
    """Where the operator with most of the time spent it, in a recording with sampled stacks."""

    operators: OperatorSums = field(default_factory=OperatorSums)
    """Of all threads."""

    @property
    def places(self) -> list[places.Place]:
        """Where it was spent by Python functions, else by stacks or modules of operators."""
        return self.lines or places.ranked(self.by_place)


def spent_in_threads(rank: RecordedRank, time: Partition) -> dict[str, Spent]:
    """Return where each cause of `time` was spent that is time of CPU threads."""
    found = {
        cause: Spent(
            lines=[] if cause == cpu.COMPUTING else places.by_function(rank, time.spans(cause))
        )
        for cause in time.parts
        if not (len(rank.kernels) and cause.partition(".")[0] in OF_KERNELS)
    }
    within = charges.of_operators(rank, time)
    program = places.threads(rank)
    threads = [*dict.fromkeys([*program, *rank.roles.threads])]
    for part in rank.in_parts():
        of_program = np.isin(part.op_threads, program)
        for cause, spent in found.items():
            spans = time.spans(cause)
            own = charges.of_threads(part, spans, threads)
            if cause == cpu.COMPUTING:
                own[~part.works] = 0
            if not spent.lines:
                spent.operators.add(part, own)
            if cause != cpu.COMPUTING:
                own[~of_program] = 0
            elif spans is not within:
                own = np.where(part.works, charges.of_ops(part, within), 0)
            spent.by_place.update(places.in_ops(part, own))
            operators = categorical(part.ops["name"])
            spent.names.add(operators, np.where(part.works, own, 0))
            if part.is_sampled and cause == cpu.COMPUTING and spent.names.ns:
                largest = max(spent.names.ns.items(), key=lambda one: (one[1], one[0]))[0]
                spent.of_largest = places.of_ops(part, np.where(operators == largest, own, 0))
            part.tidy()
    return found
