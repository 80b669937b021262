"""Examples of `repeated_small_matmuls`."""

from tests.patterns.recorded import op


def products(count, size="[[4, 64], [64, 64]]"):
    made = [op(n, "aten::mm", 120_000 // count, input_shapes=size) for n in range(count)]
    return {"cpu_ops": made}


FOUND = products(20)
EXPECTED = ("cpu_operators.aten::mm", 90_000, "torch.bmm")
LAYERS = [
    op(n, "aten::mm", 6_000, input_shapes=size) | ({"end_ns": n * 1_000 + 90_000} if n % 2 else {})
    for n, size in enumerate(["[[4, 64], [64, 64]]", "[[64, 64], [64, 4]]"] * 20)
]
PASSED = {
    "layers, whose products need one another": {
        "cpu_ops": [
            row
            for product in FOUND["cpu_ops"]
            for row in (product, op(product["op"], "aten::tanh") | {"start_ns": product["end_ns"]})
        ]
    },
    "two products for each layer, of which one is short": {"cpu_ops": LAYERS},
    "layers of one width without anything between them": {
        "cpu_ops": [
            row | {"name": "aten::addmm"}
            for row in products(20, "[[64], [16, 64], [64, 64], [], []]")["cpu_ops"]
        ]
    },
    "a few": products(8),
    "of different sizes": {
        "cpu_ops": [op(n, "aten::mm", 6_000, input_shapes=f"[[{n}, 64]]") for n in range(20)]
    },
}
