"""Examples of `loading_in_main_process`."""

from tests.patterns.recorded import kernel, op

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OPS = [op(0, NEXT, 400_000, kind="annotation"), op(1, "aten::stack", 200_000, parent=0)]

FOUND = {"cpu_ops": OPS, "kernels": [kernel(9, "gemm", 1_000)]}
EXPECTED = ("gpu_idle.loading_data", 600_000, "num_workers=3")
PASSED = {
    "workers": {"cpu_ops": [op(0, NEXT.replace("SingleProcess", "MultiProcessing"), 900_000)]},
    "batches that a worker could not hand over sooner": {
        "cpu_ops": [row | {"charged_ns": row["charged_ns"] // 2} for row in OPS]
    },
    "hidden behind the GPU": {"cpu_ops": [op(0, NEXT)]},
}
