"""Examples of `odd_sizes`."""

from tests.patterns.recorded import kernel, op

HALF = '["c10::BFloat16", "c10::BFloat16"]'
KERNELS = [kernel(0, "cutlass_align1", 90_000)]

FOUND = {
    "cpu_ops": [op(0, "aten::mm", input_types=HALF, input_shapes="[[512, 768], [768, 50257]]")],
    "kernels": KERNELS,
}
EXPECTED = ("gpu_computing.aten::mm", 45_000, "50257")
PASSED = {
    "multiples of 8": {
        "cpu_ops": [op(0, "aten::mm", input_types=HALF, input_shapes="[[512, 768], [768, 50304]]")],
        "kernels": KERNELS,
    },
    "an odd number of rows": {
        "cpu_ops": [op(0, "aten::mm", input_types=HALF, input_shapes="[[788, 768], [768, 64]]")],
        "kernels": KERNELS,
    },
    "FP32": {
        "cpu_ops": [op(0, "aten::mm", input_types='["float"]', input_shapes="[[9, 9], [9, 9]]")],
        "kernels": KERNELS,
    },
}
