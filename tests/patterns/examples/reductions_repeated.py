"""Examples of `reductions_repeated`."""

from tests.patterns.recorded import collective, op, sent

FORWARDS = [op(number, "DistributedDataParallel.forward") for number in range(3)]


def reduced(count):
    made = [collective(n, "allreduce", size_bytes=25 << 20) for n in range(count)]
    return {"cpu_ops": FORWARDS, "collectives": made,
            "kernels": [sent(n, 90_000 // count) for n in range(count)]}  # fmt: skip


FOUND = reduced(3)
EXPECTED = ("exposed_communication", 60_000, "no_sync()")
PASSED = {
    "in the last micro-batch alone": reduced(1),
    "one micro-batch": reduced(3) | {"cpu_ops": FORWARDS[:1]},
}
