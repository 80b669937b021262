"""Examples of `many_small_reductions`."""

from tests.patterns.recorded import causes, collective, sent


def reduced(count, size_bytes):
    return [collective(n, "allreduce", size_bytes=size_bytes) for n in range(count)]


FOUND = {
    "collectives": reduced(30, 4096),
    "kernels": [sent(n, 3_000) for n in range(30)] + [sent(-1, 50_000)],
}
EXPECTED = ("exposed_communication", 90_000, "bucket_cap_mb")
PASSED = {
    "scalars, which are another matter": {**FOUND, "collectives": reduced(30, 4)},
    "buckets": {"collectives": reduced(30, 25 << 20), "kernels": FOUND["kernels"]},
    "a few": {
        "collectives": reduced(2, 4096), "causes": causes(("exposed_communication", 0.9, ""))
    },
}  # fmt: skip
