"""Examples of `host_random_numbers`."""

from tests.patterns.recorded import call, kernel, op

OPS = [op(0, "aten::randn", 60_000), op(1, "aten::normal_", 30_000, parent=0), op(2, "aten::mm")]

FOUND = {"cpu_ops": OPS, "kernels": [kernel(2, "gemm", 1_000)]}
EXPECTED = ("gpu_idle", 90_000, 'device="cuda"')
PASSED = {
    "drawn on the GPU": {"cpu_ops": OPS, "kernels": [kernel(1, "distribution", 1_000)]},
    "drawn on a GPU that was not recorded": {
        "cpu_ops": OPS,
        "runtime_calls": [call(1, "cudaLaunchKernel")],
    },
    "no GPU": {"cpu_ops": OPS},
}
