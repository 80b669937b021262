"""Examples of `unfused_cross_entropy`."""

from tests.patterns.recorded import kernel, op

LOGITS = "[[2048, 32000], []]"
NAMES = ("aten::max", "aten::sub", "aten::exp", "aten::sum", "aten::log")
KERNELS = [kernel(number, "elementwise_kernel", 30_000) for number in range(5)]

FOUND = {
    "cpu_ops": [op(number, name, input_shapes=LOGITS) for number, name in enumerate(NAMES)],
    "kernels": KERNELS,
}
EXPECTED = ("gpu_computing.aten::exp", 100_000, "cross_entropy")
PASSED = {
    "a small softmax": {
        "cpu_ops": [op(n, name, input_shapes="[[8, 64]]") for n, name in enumerate(NAMES)],
        "kernels": KERNELS,
    },
    "a softmax of attention": {
        "cpu_ops": [
            op(n, name, input_shapes="[[4, 12, 4096, 4096]]") for n, name in enumerate(NAMES[:4])
        ],
        "kernels": KERNELS,
    },
    "the fused loss": {
        "cpu_ops": [op(0, "aten::_log_softmax", input_shapes=LOGITS)],
        "kernels": KERNELS,
    },
}
