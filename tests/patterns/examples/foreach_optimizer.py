"""Examples of `foreach_optimizer`."""

from tests.patterns.recorded import kernel, op

FOUND = {
    "cpu_ops": [op(0, "Optimizer.step#AdamW.step", kind="annotation")]
    + [op(number, "aten::_foreach_mul_", parent=0) for number in range(1, 5)],
    "kernels": [kernel(number, "multi_tensor_apply_kernel", 30_000) for number in range(1, 5)],
}
EXPECTED = ("gpu_computing.aten::_foreach_mul_", 60_000, "fused=True")
PASSED = {
    "an optimizer without a fused form": {
        "cpu_ops": [op(0, "Optimizer.step#RAdam.step"), *FOUND["cpu_ops"][1:]],
        "kernels": FOUND["kernels"],
    },
    "a fused optimizer": {
        "cpu_ops": [FOUND["cpu_ops"][0], op(1, "aten::_fused_adamw_", parent=0)],
        "kernels": [kernel(1, "multi_tensor_apply_kernel", 30_000)],
    },
}
