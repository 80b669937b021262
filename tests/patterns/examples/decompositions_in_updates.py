"""Examples of `decompositions_in_updates`."""

from tests.patterns.recorded import op

OPS = [
    op(0, "Optimizer.step#Shampoo.step", kind="annotation"),
    op(1, "aten::linalg_eigh", 10_000, parent=0),
    op(2, "aten::_linalg_eigh", 90_000, parent=1),
    op(3, "aten::mm", 50_000, parent=0),
]
FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::_linalg_eigh", 81_000, "decomposes a matrix in each step")
PASSED = {
    "in the model": {"cpu_ops": [row | {"parent": -1} for row in OPS]},
    "products alone": {"cpu_ops": [OPS[0], OPS[3]]},
    "nothing": {},
}
