"""Examples of `unused_parameters`."""

from tests.patterns.recorded import collective, op, sent


def reduced(dtype):
    return {
        "cpu_ops": [op(9, "DistributedDataParallel.forward")],
        "collectives": [collective(0, "allreduce", dtype=dtype)],
        "kernels": [sent(0, 90_000)],
    }


FOUND = reduced("int32")
EXPECTED = ("exposed_communication", 90_000, "find_unused_parameters=True")
PASSED = {"gradients": reduced("float32"), "without DDP": reduced("int32") | {"cpu_ops": []}}
