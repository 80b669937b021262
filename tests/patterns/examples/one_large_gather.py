"""Examples of `one_large_gather`."""

from tests.patterns.recorded import collective, sent


def gathered(longest_ns):
    lasting = [1_000, 1_000, 1_000, 1_000, longest_ns]
    return {
        "collectives": [collective(n, "allgather", end_ns=ns) for n, ns in enumerate(lasting)],
        "kernels": [sent(n, 90_000 if n == len(lasting) - 1 else 1_000) for n in range(5)],
    }


FOUND = gathered(100_000)
EXPECTED = ("exposed_communication.transfer", 90_000, "loss_parallel()")
PASSED = {
    "equal gathers": gathered(2_000),
    "a few": {
        "collectives": gathered(100_000)["collectives"][-2:], "kernels": FOUND["kernels"]
    },
}  # fmt: skip
