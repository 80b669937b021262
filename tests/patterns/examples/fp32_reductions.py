"""Examples of `fp32_reductions`."""

from tests.patterns.recorded import collective, sent


def reduced(dtype, size_bytes=25 << 20):
    made = [collective(0, "allreduce", dtype=dtype, size_bytes=size_bytes)]
    return {"collectives": made, "kernels": [sent(0, 90_000)]}


FOUND = reduced("float32")
EXPECTED = ("exposed_communication.transfer", 45_000, "bf16_compress_hook")
PASSED = {"half precision": reduced("bfloat16"), "small ones": reduced("float32", 4096)}
