"""Examples of `results_copied_back`."""

from tests.patterns.recorded import copy, op

OPS = [op(0, "aten::to", stack="train.py(9): main"), op(1, "aten::copy_", 80_000, parent=0)]

FOUND = {"cpu_ops": OPS, "kernels": [copy(1, "DtoH", 10_000)]}
EXPECTED = ("gpu_idle.blocked", 90_000, "`.cpu()` in train.py(9): main")
PASSED = {
    "copies to the GPU": {"cpu_ops": OPS, "kernels": [copy(1, "HtoD", 10_000)]},
    "operators not recorded": {"kernels": [copy(-1, "DtoH", 90_000)]},
}
