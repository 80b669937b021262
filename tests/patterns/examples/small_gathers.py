"""Examples of `small_gathers`."""

from tests.patterns.recorded import collective, sent


def gathered(count, size_bytes):
    made = [collective(n, "allgather", size_bytes=size_bytes) for n in range(count)]
    return {"collectives": made, "kernels": [sent(n, 90_000 // count) for n in range(count)]}


FOUND = gathered(30, 1 << 20)
EXPECTED = ("exposed_communication", 90_000, "stage3_param_persistence_threshold")
PASSED = {"large ones": gathered(30, 64 << 20), "a few": gathered(3, 1 << 20)}
