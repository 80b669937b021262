"""Examples of `strided_copies`."""

from tests.patterns.recorded import kernel, op

KERNELS = [kernel(2, "direct_copy_kernel", 90_000)]

FOUND = {
    "cpu_ops": [
        op(0, "aten::contiguous"), op(1, "aten::clone", parent=0), op(2, "aten::copy_", parent=1)
    ],
    "kernels": KERNELS,
}  # fmt: skip
EXPECTED = ("gpu_computing.aten::copy_", 90_000, "Leave out `contiguous`")
PASSED = {
    "a tensor that is contiguous": {"cpu_ops": [op(2, "aten::contiguous")]},
    "in backward": {
        "cpu_ops": [row | {"phase": "backward"} for row in FOUND["cpu_ops"]],
        "kernels": KERNELS,
    },
    "that a convolution makes": {
        "cpu_ops": [
            op(4, "aten::convolution"),
            FOUND["cpu_ops"][0] | {"parent": 4},
            *FOUND["cpu_ops"][1:],
        ],
        "kernels": KERNELS,
    },
    "another copy": {"cpu_ops": [op(2, "aten::copy_")], "kernels": KERNELS},
}
