"""A large rank, which is divided some rows and some time after the other."""

import pytest

from profkit.analyze.division import first_uses, operator_sums, recorded_rank
from profkit.analyze.shared import intervals
from profkit.patterns import _rows
from tests.analyze.test_causes import BACKWARD, CPU, GPU, call, divided, kernel, op

TWO_THREADS = {
    **GPU,
    "cpu_ops": [
        *GPU["cpu_ops"],
        op(2, 310, 600, "aten::add", parent=0),
        op(3, 900, 1700, "aten::mm", tid=BACKWARD),
        op(4, 950, 1000, "aten::mul", tid=BACKWARD, parent=3),
    ],
    "runtime_calls": [*GPU["runtime_calls"], call(9, 960, 970, tid=BACKWARD)],
    "kernels": [*GPU["kernels"], kernel(9, 1800, 1850)],
}


@pytest.mark.parametrize("tables", [GPU, TWO_THREADS, CPU], ids=["GPU", "two threads", "CPU"])
def test_causes_are_the_same_however_many_rows_are_worked_on_at_a_time(monkeypatch, tables):
    whole = divided(**tables)
    for module in (recorded_rank, intervals, _rows, first_uses, operator_sums):
        monkeypatch.setattr(module, "_ROWS_AT_ONCE", 1)
    assert divided(**tables) == whole
