"""Examples of `emptied_cache`."""

from tests.patterns.recorded import call, causes, python

CALLED = [python(0, 60_000, "torch/cuda/memory.py(180): empty_cache")]
FREED = [call(0, "cudaFree", 50_000), call(0, "cudaMalloc", 40_000)]

FOUND = {"python_calls": CALLED, "runtime_calls": FREED, "causes": causes(("gpu_idle", 0.5, ""))}
EXPECTED = ("gpu_idle.blocked", 90_000, "Remove `torch.cuda.empty_cache()`")
PASSED = {
    "allocations alone": {"runtime_calls": FREED},
    "other memory calls": {"python_calls": [python(0, 60_000, "memory.py(9): memory_stats")]},
}
