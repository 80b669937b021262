"""Examples of `samples_one_by_one`."""

from tests.patterns.recorded import op


def layers(rows, count=10):
    return [
        op(number, "aten::addmm", 40_000, input_shapes=f"[[64], [{rows}, 32], [32, 64], [], []]")
        for number in range(count)
    ]


def passes(count):
    return [op(100 + number, "torch::autograd::AccumulateGrad") for number in range(count)]


FOUND = {"cpu_ops": [*layers(1), *passes(20)]}
EXPECTED = ("cpu_operators.aten::addmm", 350_000, "the whole batch in one call")
PASSED = {
    "a batch": {"cpu_ops": [*layers(8), *passes(20)]},
    "one backward pass of all": {"cpu_ops": [*layers(1), *passes(2)]},
    "few": {"cpu_ops": [*layers(1, 4), *passes(20)]},
    "no training": {"cpu_ops": layers(1)},
    "the optimizer alone": {
        "cpu_ops": [row | {"phase": "backward"} for row in [*layers(1), *passes(20)]],
    },
}
