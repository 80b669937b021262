"""Examples of `conversions`."""

from tests.patterns.recorded import kernel, op

KERNELS = [kernel(0, "elementwise_kernel", 90_000)]

FOUND = {
    "cpu_ops": [op(0, "aten::copy_", input_types='["c10::BFloat16", "float", ""]')],
    "kernels": KERNELS,
}
EXPECTED = ("gpu_computing.aten::copy_", 90_000, "c10::BFloat16 from float")
PASSED = {
    "a copy of one type": {
        "cpu_ops": [op(0, "aten::copy_", input_types='["float", "float"]')], "kernels": KERNELS
    },
    "a number of Python": {
        "cpu_ops": [
            op(0, "aten::copy_", input_types='["float", "double", ""]', input_shapes="[[], [], []]")
        ],
        "kernels": KERNELS,
    },
    "types not recorded": {"cpu_ops": [op(0, "aten::copy_")], "kernels": KERNELS},
}  # fmt: skip
