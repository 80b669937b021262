"""Examples of `graph_inputs_copied`."""

from tests.patterns.recorded import call, copy

COPIES = [copy(number, "DtoD", 3_000) for number in range(30)]
LAUNCH = [call(-1, "cudaGraphLaunch")]

FOUND = {"kernels": COPIES, "runtime_calls": LAUNCH}
EXPECTED = ("exposed_copies.DtoD", 90_000, "mark_static_address")
PASSED = {
    "no graphs": {"kernels": COPIES},
    "copies of a graph itself": {
        "kernels": [row | {"graph": 1} for row in COPIES],
        "runtime_calls": LAUNCH,
    },
}
