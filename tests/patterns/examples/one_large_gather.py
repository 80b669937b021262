"""Examples of `one_large_gather`."""

from tests.patterns.recorded import collective, op, sent


def gathered(longest_ns, sizes=(-1, -1, -1, -1, -1)):
    lasting = [1_000, 1_000, 1_000, 1_000, longest_ns]
    return {
        "collectives": [
            collective(n, "allgather", end_ns=ns, size_bytes=size)
            for n, (ns, size) in enumerate(zip(lasting, sizes, strict=True))
        ],
        "kernels": [sent(n, 90_000 if n == len(lasting) - 1 else 1_000) for n in range(5)],
    }


ANSWERED = gathered(100_000)
FOUND = ANSWERED | {"cpu_ops": [op(8, "autograd::engine::evaluate_function: MmBackward0")]}
EXPECTED = ("exposed_communication.transfer", 90_000, "loss_parallel()")
PASSED = {
    "equal gathers": gathered(2_000),
    "one that takes long, of the same size": gathered(100_000, (9, 9, 9, 9, 9)),
    "weights that an optimizer gathers": {
        **FOUND,
        "cpu_ops": [
            op(9, "Optimizer.step#Muon.step", kind="annotation"),
            *[op(number, "c10d::allgather_", parent=9) for number in range(5)],
        ],
    },
    "a few": {
        "collectives": gathered(100_000)["collectives"][-2:], "kernels": FOUND["kernels"]
    },
}  # fmt: skip
