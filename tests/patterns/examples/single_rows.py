"""Examples of `single_rows`."""

from tests.patterns.examples.work_beside_the_model import MODEL, called
from tests.patterns.recorded import op


def layers(rows, count=3):
    return [
        op(number, "aten::addmm", 40_000, input_shapes=f"[[64], [{rows}, 32], [32, 64], [], []]")
        for number in range(count)
    ]


# Of 160 us in the model, operators take 120.
FOUND = {"cpu_ops": layers(1), "python_calls": [called(0, 200_000, MODEL, 160_000)]}
EXPECTED = ("cpu_operators.aten::addmm", 140_000, "in one call")
PASSED = {
    "a batch": {"cpu_ops": layers(8)},
    "a last layer on one row": {"cpu_ops": [*layers(128), *layers(1, 1)]},
    "one product": {"cpu_ops": layers(1, 1)},
    "training": {"cpu_ops": [*layers(1), op(9, "Optimizer.step#SGD.step", kind="annotation")]},
    "shapes not recorded": {
        "cpu_ops": [row | {"input_shapes": ""} for row in layers(1)],
    },
}
