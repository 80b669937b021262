"""Examples of `growing_cache`."""

from tests.patterns.recorded import kernel, op

KERNELS = [kernel(0, "CatArrayBatchedCopy", 90_000)]

FOUND = {
    "cpu_ops": [op(0, "aten::cat", input_shapes="[[[2, 8, 500, 64], [2, 8, 1, 64]], []]")],
    "kernels": KERNELS,
}
EXPECTED = ("gpu_computing.aten::cat", 90_000, "StaticCache")
PASSED = {
    "halves of a head": {
        "cpu_ops": [op(0, "aten::cat", input_shapes="[[[2, 8, 500, 32], [2, 8, 500, 32]], []]")],
        "kernels": KERNELS,
    },
    "shapes not recorded": {"cpu_ops": [op(0, "aten::cat")], "kernels": KERNELS},
}
