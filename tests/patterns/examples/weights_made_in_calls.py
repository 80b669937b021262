"""Examples of `weights_made_in_calls`."""

from tests.patterns.recorded import op

W, X = "[512, 256]", "[4, 256]"
LAYER = op(9, "aten::linear", 5_000, input_shapes=f"[{X}, {W}, [512]]")


def made(number, name, shapes, **columns):
    return op(number, name, 10_000, input_shapes=f"[{shapes}]", **columns)


DEQUANTISED = [
    op(1, "aten::mul", 7_000, input_shapes=f"[{X}, {X}]"),
    made(2, "aten::to", W, input_types='["signed char"]', stack="quant.py(17): dequantize"),
    op(3, "aten::_to_copy", 6_000, parent=2),
    made(4, "aten::mul", f"{W}, [512, 1]", input_types='["float", "float"]'),
    LAYER,
]
ADDED = [
    made(2, "aten::matmul", "[512, 8], [8, 256]"),
    made(3, "aten::mul", f"{W}, []"),
    made(4, "aten::add", f"{W}, {W}"),
    LAYER,
]
BACKWARD = op(20, "autograd::engine::evaluate_function: AddmmBackward0")

FOUND = {"cpu_ops": DEQUANTISED}
EXPECTED = ("cpu_operators.aten::mul", 26_000, "torchao")
PASSED = {
    "what makes the input": {
        "cpu_ops": [made(2, "aten::mul", f"{X}, {X}"), made(3, "aten::add", f"{X}, {X}"), LAYER]
    },
    "a conversion alone, which is another matter": {
        "cpu_ops": [made(2, "aten::to", W, input_types='["float"]'), LAYER]
    },
    "weights that training changes": {"cpu_ops": [*DEQUANTISED, BACKWARD]},
    "on another thread": {"cpu_ops": [row | {"tid": 2} for row in ADDED[:-1]] + [LAYER]},
}
