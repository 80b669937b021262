"""Examples of `start_up_in_steps`."""

from tests.patterns.recorded import call, kernel

LAUNCH = call(0, "cudaLaunchKernel", 70_000, 2_000_000) | {"correlation": 7}
FOUND = {
    "runtime_calls": [
        call(0, "cuLibraryLoadData", 20_000), call(0, "cudaLaunchKernel", 70_000, 2_000_000)
    ]
}  # fmt: skip
EXPECTED = (
    "gpu_idle.start_up",
    90_000,
    "`cudaLaunchKernel` loads code, up to 2 ms: run a few steps first",
)
PASSED = {
    "the launch of a kernel that ran before": {
        "runtime_calls": [LAUNCH],
        "kernels": [kernel(0, "gemm"), kernel(0, "gemm", start_ns=9_000, correlation=7)],
    },
    "short allocations": {"runtime_calls": [call(0, "cudaMalloc", 90_000, 5_000_000)]},
    "short launches": {"runtime_calls": [call(0, "cudaLaunchKernel", 90_000)]},
}
