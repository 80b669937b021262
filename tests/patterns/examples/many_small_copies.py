"""Examples of `many_small_copies`."""

from tests.patterns.recorded import copy, op


def copied(count, size_bytes):
    return {
        "cpu_ops": [op(n, "aten::copy_", 80_000 // count) for n in range(count)],
        "kernels": [copy(n, "HtoD", 40_000 // count, size_bytes=size_bytes) for n in range(count)],
    }


FOUND = copied(20, 256)
EXPECTED = ("gpu_idle", 120_000, "Pack the small inputs")
PASSED = {"a few": copied(4, 256), "large ones": copied(20, 1 << 20)}
