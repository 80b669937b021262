"""Examples of `dropout_in_inference`."""

from tests.patterns.recorded import kernel, op


def layer(*drawing):
    """Return a layer whose dropout calls these operators, and is charged 10 us for each."""
    return [
        op(0, "aten::linear", 50_000),
        op(1, "aten::dropout", 10_000, stack="serve.py(3): main;model.py(7): forward"),
        *[op(2 + n, name, 10_000, parent=1) for n, name in enumerate(drawing)],
    ]


FOUND = {"cpu_ops": layer("aten::bernoulli_", "aten::div_", "aten::mul")}
EXPECTED = ("cpu_operators.aten::bernoulli_", 40_000, "model.eval()")
PASSED = {
    "evaluation": {"cpu_ops": layer()},
    "training": {
        "cpu_ops": [
            *layer("aten::native_dropout"),
            op(9, "autograd::engine::evaluate_function: NativeDropoutBackward0"),
        ]
    },
    "random numbers of the program": {"cpu_ops": [op(0, "aten::bernoulli_", 90_000)]},
    "the GPU does something else": {
        "cpu_ops": [row | {"charged_ns": 0} for row in layer("aten::native_dropout")],
        "kernels": [kernel(0, "gemm", 900_000), kernel(2, "fused_dropout", 900)],
    },
}
