"""Examples of `unfused_elementwise`."""

from tests.patterns.recorded import kernel

PLAIN = "void at::native::vectorized_elementwise_kernel<4, MulFunctor>"

FOUND = {"kernels": [kernel(0, PLAIN, 90_000), kernel(1, "gemm", 100_000)]}
EXPECTED = ("gpu_computing", 60_000, "torch.compile")
PASSED = {
    "a quarter of computing or less": {
        "kernels": [kernel(0, PLAIN, 90_000), kernel(1, "gemm", 300_000)]
    },
    "the optimizer": {"kernels": [kernel(0, PLAIN, 90_000, phase="optimizer")]},
}
