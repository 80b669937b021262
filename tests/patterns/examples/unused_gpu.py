"""Examples of `unused_gpu`."""

from tests.patterns.recorded import call, op

GPU = {"rank": 0, "repeat": 0, "device": 0, "name": "NVIDIA RTX A1000"}
OPS = [
    op(0, "aten::mkldnn_convolution", 60_000),
    op(1, "aten::add", 340_000),
    op(2, "Optimizer.step", 400_000),
]

FOUND = {"cpu_ops": OPS, "devices": [GPU]}
EXPECTED = ("cpu_operators", 400_000, 'GPU, `.to("cuda")`: there is NVIDIA RTX A1000')
PASSED = {
    "no GPU": {"cpu_ops": OPS},
    "operators that may be those of a GPU": {
        **FOUND,
        "cpu_ops": [op(0, "aten::convolution", 300_000), *OPS[1:]],
    },
    "launches of work for it": {**FOUND, "runtime_calls": [call(0, "cudaLaunchKernel")]},
    "memory that is asked of it for the first time": {
        **FOUND,
        "cpu_ops": [op(9, "aten::empty_strided", 100_000_000), *OPS],
    },
    "a little work that stays on the CPU": {
        **FOUND,
        "cpu_ops": [op(0, "fbgemm::permute_2D_sparse_data", 20_000), *OPS[1:]],
    },
}
