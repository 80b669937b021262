"""Examples of `odd_sizes`."""

from tests.patterns.recorded import kernel, op

HALF = '["c10::BFloat16", "c10::BFloat16"]'
KERNELS = [kernel(0, "cutlass_align1", 90_000)]


def product(number, left, right):
    return op(number, "aten::bmm", input_types=HALF, input_shapes=f"[{left}, {right}]")


ATTENTION = [
    product(0, [96, 3137, 64], [96, 64, 3137]),
    op(1, "aten::_softmax", input_shapes="[[12, 8, 3137, 3137]]"),
    product(2, [96, 3137, 3137], [96, 3137, 64]),
]

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
    "the scores of attention, which a fused kernel does not make": {
        "cpu_ops": ATTENTION,
        "kernels": KERNELS,
    },
}
