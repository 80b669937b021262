"""Examples of `repeated_values`."""

from tests.patterns.recorded import kernel, op

OPS = [op(0, "aten::repeat", 1_000), op(1, "aten::copy_", 70_000, parent=0), op(2, "aten::sub", 9)]
FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::copy_", 71_000, "`expand`")
PASSED = {
    "a view": {"cpu_ops": [op(0, "aten::expand", 80_000)]},
    "a small copy": {"cpu_ops": [op(0, "aten::repeat", 20_000)]},
    "a small copy of a GPU": {
        "cpu_ops": [op(0, "aten::repeat"), op(1, "aten::copy_", parent=0)],
        "kernels": [kernel(1, "elementwise_kernel", 20_000)],
    },
}
