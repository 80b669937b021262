"""Examples of `sparse_matrices_built`."""

from tests.patterns.recorded import op

SORTED = [
    op(0, "aten::coalesce", 10_000),
    op(1, "aten::_coalesce", 20_000, 0),
    op(2, "aten::sort", 170_000, 1),
]

FOUND = {"cpu_ops": [*SORTED, op(3, "aten::addmm", 500_000)]}
EXPECTED = ("cpu_operators.aten::sort", 200_000, "once, before the first step")
PASSED = {
    "sorted already": {"cpu_ops": [op(0, "aten::is_coalesced", 200_000)]},
    "a sort": {"cpu_ops": SORTED[2:]},
    "sparse gradients": {
        "cpu_ops": [
            op(4, "Optimizer.step#SparseAdam.step", kind="annotation"),
            *(row | {"parent": 4} if row["op"] == 0 else row for row in SORTED),
        ]
    },
}
