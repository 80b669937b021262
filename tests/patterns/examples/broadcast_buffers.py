"""Examples of `broadcast_buffers`."""

from tests.patterns.recorded import op

OPS = [
    op(0, "DistributedDataParallel.forward", 5_000, kind="annotation"),
    op(1, "aten::flatten_dense_tensors", 30_000, parent=0),
    op(2, "c10d::broadcast_", 20_000, parent=0),
    op(3, "aten::copy_", 40_000, parent=0),
    op(4, "aten::conv2d", 70_000, parent=0),
    op(5, "aten::copy_", 70_000, parent=0),
]

FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::copy_", 90_000, "broadcast_buffers=False")
PASSED = {
    "no buffers": {"cpu_ops": [OPS[0], OPS[3], OPS[4]]},
    "a broadcast elsewhere": {"cpu_ops": [row | {"parent": -1} for row in OPS]},
}
