"""Examples of `prefix_computed_again`."""

from tests.patterns.recorded import kernel, op


def lookups(*lengths):
    return [
        op(number, "aten::embedding", input_shapes=f"[[4000, 256], [2, {length}], [], [], []]")
        for number, length in enumerate(lengths)
    ]


KERNELS = [kernel(0, "gemm", 100_000)]

FOUND = {"cpu_ops": lookups(99, 100, 101), "kernels": KERNELS}
EXPECTED = ("gpu_computing", 99_000, "use_cache=True")
PASSED = {
    "a token at a time": {"cpu_ops": lookups(1, 1, 1, 1), "kernels": KERNELS},
    "batches of other lengths": {"cpu_ops": lookups(99, 100, 80, 120), "kernels": KERNELS},
    "training": {
        "cpu_ops": [*lookups(99, 100, 101), op(9, "autograd::engine::evaluate_function: X")],
        "kernels": KERNELS,
    },
    "shapes not recorded": {"cpu_ops": [op(0, "aten::embedding")], "kernels": KERNELS},
}
