"""Examples of `graph_breaks`."""

from tests.patterns.recorded import op


def regions(count):
    made = [op(n, f"Torch-Compiled Region: {n}/0", 120_000 // count) for n in range(count)]
    return {"cpu_ops": made}


FOUND = regions(6)
EXPECTED = ("python", 120_000, "fullgraph=True")
PASSED = {
    "one graph": regions(1),
    "one graph called often": {"cpu_ops": regions(1)["cpu_ops"] * 6},
}
