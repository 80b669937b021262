"""Examples of `logits_in_fp32`."""

from tests.patterns.recorded import kernel, op

WIDENING = '["float", "c10::BFloat16"]'
KERNELS = [kernel(0, "elementwise_kernel", 90_000)]


def copied(shapes, types=WIDENING):
    return {"cpu_ops": [op(0, "aten::copy_", input_shapes=shapes, input_types=types)],
            "kernels": KERNELS}  # fmt: skip


FOUND = copied("[[2048, 32000], [2048, 32000]]")
EXPECTED = ("gpu_computing.aten::copy_", 90_000, "`.float()` on the logits")
PASSED = {
    "weights": copied("[[2048, 4096], [2048, 4096]]"),
    "a copy of one type": copied("[[2048, 32000], [2048, 32000]]", '["float", "float"]'),
}
