"""Examples of `conversions`."""

from tests.patterns.recorded import collective, kernel, op

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
    "buckets that a hook sends in fewer bytes": {
        **FOUND,
        "cpu_ops": [FOUND["cpu_ops"][0] | {"input_shapes": "[[4096], [4096], []]"}],
        "collectives": [collective(0, "allreduce", dtype="bfloat16")],
    },
    "types not recorded": {"cpu_ops": [op(0, "aten::copy_")], "kernels": KERNELS},
}  # fmt: skip
