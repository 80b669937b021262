"""Examples of `values_read_back`."""

from tests.patterns.recorded import call, kernel, op

OPS = [
    op(0, "aten::item"),
    op(1, "aten::_local_scalar_dense", 1_000, parent=0, stack="train.py(9): main"),
]
CALLS = [call(1, "cudaMemcpyAsync", 10_000), call(1, "cudaStreamSynchronize", 80_000)]
KERNELS = [kernel(1, "Memcpy DtoH", 1_000, kind="copy")]

FOUND = {"cpu_ops": OPS, "runtime_calls": CALLS, "kernels": KERNELS}
EXPECTED = ("gpu_idle.blocked.cudaStreamSynchronize", 90_000, "train.py(9): main")
PASSED = {
    "a tensor of the CPU": {"cpu_ops": OPS, "kernels": KERNELS},
    "another synchronisation": {
        "cpu_ops": OPS,
        "kernels": KERNELS,
        "runtime_calls": [call(-1, "cudaStreamSynchronize", 90_000)],
    },
}
