"""Examples of `fp64_operators`."""

from tests.patterns.recorded import kernel, op

FOUND = {"cpu_ops": [op(0, "aten::mm", 90_000, input_types='["double", "double"]')]}
EXPECTED = ("cpu_operators.aten::mm", 45_000, "float32")
PASSED = {
    "a number of Python": {
        "cpu_ops": [
            op(0, "aten::mul", 90_000, input_types='["float", "double"]', input_shapes="[[8], []]")
        ]
    },
    "single precision": {"cpu_ops": [op(0, "aten::mm", 90_000, input_types='["float"]')]},
    "a few numbers": {
        "cpu_ops": [
            op(0, "aten::mul", 90_000, input_types='["double"]', input_shapes="[[12, 1, 1]]")
        ]
    },
    "a value read": {
        "cpu_ops": [op(0, "aten::item", 90_000, input_types='["double"]')],
        "kernels": [kernel(0, "copy", 90_000)],
    },
}
