"""Examples of `short_kernels`."""

from tests.patterns.recorded import causes, kernel

IDLE = causes(("gpu_idle.python", 0.5, ""))


def short(every_ns):
    """Return kernels of 5 us, one after another so many ns after the one before began."""
    times = [number * every_ns for number in range(30)]
    return [
        kernel(number, "elementwise", 5_000, start_ns=start, end_ns=start + 5_000)
        for number, start in enumerate(times)
    ]


SHORT = short(25_000)

FOUND = {"kernels": SHORT, "causes": IDLE}
EXPECTED = ("gpu_idle.python", 500_000, "reduce-overhead")
PASSED = {
    "a busy GPU": {"kernels": SHORT, "causes": causes(("gpu_idle.python", 0.1, ""))},
    "long kernels": {"kernels": [kernel(0, "gemm", 50_000)] * 30, "causes": IDLE},
    "kernels of a graph": {"kernels": [row | {"graph": 3} for row in SHORT], "causes": IDLE},
    "a few long gaps": {"kernels": short(12_000), "causes": IDLE},
}
