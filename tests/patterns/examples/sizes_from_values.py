"""Examples of `sizes_from_values`."""

from tests.patterns.recorded import kernel, op

OPS = [op(0, "aten::index"), op(1, "aten::nonzero", 90_000, parent=0)]

FOUND = {"cpu_ops": OPS, "kernels": [kernel(1, "scan", 1_000)]}
EXPECTED = ("gpu_idle.blocked", 90_000, "torch.where")
PASSED = {
    "an index of numbers": {"cpu_ops": [op(0, "aten::index", 90_000)],
                            "kernels": [kernel(0, "index", 1_000)]},
    "no GPU": {"cpu_ops": OPS},
}  # fmt: skip
