"""Of many ranks with many kernels, some that stand for all are read."""

import pytest

from profkit.analyze import hta, sequences
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.representative_ranks import fitting
from profkit.testing import frame, rows, run
from tests.analyze.test_causes import call, kernel, op, step

RANKS = 4
TABLES = {
    "steps": [step(0, 200, rank=rank, repeat=0) for rank in range(RANKS)],
    "cpu_ops": [op(0, 0, 190, rank=rank, repeat=0) for rank in range(RANKS)],
    "runtime_calls": [
        call(number, 10 * number, 10 * number + 5, rank=rank, repeat=0)
        for rank in range(RANKS)
        for number in range(1, 10)
    ],
    "kernels": [
        kernel(number, 12 * number, 12 * number + 5 + rank, rank=rank, repeat=0)
        for rank in range(RANKS)
        for number in range(1, 10)
    ],
}


@pytest.mark.parametrize(("most", "ranks"), [(36, 4), (35, 3), (18, 2), (9, 1), (1, 1)])
def test_as_many_ranks_are_read_as_there_is_memory_for(most, ranks):
    assert fitting(LargeTable.of(frame("kernels", TABLES["kernels"])), most) == ranks


@pytest.mark.parametrize(
    ("analysis", "table", "what"),
    [(hta, "temporal_breakdown", "HTA's numbers"), (sequences, "by_operator", "kernel sequences")],
)
def test_the_ranks_that_stand_for_all_are_named(analysis, table, what):
    needed = {name: TABLES.get(name, []) for name in analysis.analyze.tables}
    made = run(analysis.analyze, **needed, most_kernels=20)
    assert rows(made, table)
    (reason,) = [one.reason for one in made.abstentions if one.what == f"{what} of 2 ranks"]
    assert reason.endswith("stand for all 4: set most_kernels to have more")
