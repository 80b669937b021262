"""Examples of `unfused_elementwise`."""

from tests.patterns.recorded import kernel, op

PLAIN = "void at::native::vectorized_elementwise_kernel<4, MulFunctor>"

FOUND = {
    "kernels": [kernel(0, PLAIN, 60_000), kernel(1, PLAIN, 30_000), kernel(2, "gemm", 100_000)],
    "cpu_ops": [op(0, "aten::add"), op(1, "aten::mul"), op(2, "aten::mm")],
}
EXPECTED = (
    "gpu_computing",
    60_000,
    "`torch.compile(model)`: most time is in `aten::add` and `aten::mul`.",
)
PASSED = {
    "a quarter of computing or less": {
        "kernels": [kernel(0, PLAIN, 90_000), kernel(1, "gemm", 300_000)]
    },
    "the optimizer": {"kernels": [kernel(0, PLAIN, 90_000, phase="optimizer")]},
}
