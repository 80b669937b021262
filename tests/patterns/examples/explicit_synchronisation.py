"""Examples of `explicit_synchronisation`."""

from tests.patterns.recorded import call

FOUND = {"runtime_calls": [call(0, "cudaDeviceSynchronize", 45_000) for _ in range(2)]}
EXPECTED = ("gpu_idle.blocked.cudaDeviceSynchronize", 90_000, "torch.cuda.synchronize()")
PASSED = {
    "the one of the profiler": {"runtime_calls": [call(0, "cudaDeviceSynchronize", 90_000)]},
    "of a stream": {"runtime_calls": [call(0, "cudaStreamSynchronize", 45_000) for _ in range(2)]},
}
