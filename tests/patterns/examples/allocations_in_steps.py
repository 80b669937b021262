"""Examples of `allocations_in_steps`."""

from tests.patterns.recorded import call

FOUND = {"runtime_calls": [call(0, "cudaMalloc", 40_000), call(0, "cudaFree", 50_000)]}
EXPECTED = ("gpu_idle.blocked.cudaFree", 90_000, "PYTORCH_NO_CUDA_MEMORY_CACHING")
PASSED = {
    "one of start-up": {"runtime_calls": [call(0, "cudaMalloc", 900), call(0, "cudaFree", 90_000)]},
    "calls beside a busy GPU": {"runtime_calls": [call(0, "cudaMalloc")]},
    "launches": {"runtime_calls": [call(0, "cudaLaunchKernel", 90_000)]},
}
