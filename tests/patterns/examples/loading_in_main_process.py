"""Examples of `loading_in_main_process`."""

from tests.patterns.recorded import kernel, op

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OPS = [op(0, NEXT, 60_000, kind="annotation"), op(1, "aten::stack", 30_000, parent=0)]

FOUND = {"cpu_ops": OPS, "kernels": [kernel(9, "gemm", 1_000)]}
EXPECTED = ("gpu_idle.loading_data", 90_000, "num_workers=2")
PASSED = {
    "workers": {"cpu_ops": [op(0, NEXT.replace("SingleProcess", "MultiProcessing"), 90_000)]},
    "hidden behind the GPU": {"cpu_ops": [op(0, NEXT)]},
}
