"""Examples of `collective_on_compute_stream`."""

from tests.patterns.recorded import kernel, sent

GEMM = kernel(0, "gemm", 200_000)

FOUND = {"kernels": [GEMM, sent(1, 90_000, stream=7)]}
EXPECTED = ("exposed_communication", 90_000, "async_op=True")
PASSED = {
    "a stream of its own": {"kernels": [GEMM, sent(1, 90_000)]},
    "nothing to run beside": {"kernels": [sent(1, 90_000)]},
}
