"""Examples of `start_up_in_steps`."""

from tests.patterns.recorded import call

FOUND = {
    "runtime_calls": [
        call(0, "cuLibraryLoadData", 20_000), call(0, "cudaLaunchKernel", 70_000, 2_000_000)
    ]
}  # fmt: skip
EXPECTED = ("gpu_idle.start_up", 90_000, "CUDA_MODULE_LOADING=EAGER")
PASSED = {
    "short allocations": {"runtime_calls": [call(0, "cudaMalloc", 90_000, 5_000_000)]},
    "short launches": {"runtime_calls": [call(0, "cudaLaunchKernel", 90_000)]},
}
