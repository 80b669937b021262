"""Examples of `scalars_that_block`."""

from tests.patterns.recorded import call, copy, op

OPS = [op(0, "aten::copy_")]
CALLS = [call(0, "cudaMemcpyAsync", 1_000), call(0, "cudaStreamSynchronize", 89_000)]

FOUND = {"cpu_ops": OPS, "runtime_calls": CALLS, "kernels": [copy(0, "HtoD", 100, size_bytes=8)]}
EXPECTED = ("gpu_idle.blocked.cudaStreamSynchronize", 90_000, "torch.full")
PASSED = {
    "a batch": {**FOUND, "kernels": [copy(0, "HtoD", 100, size_bytes=1 << 20)]},
    "without a wait": {**FOUND, "runtime_calls": []},
}
