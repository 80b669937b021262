"""Examples of `unfused_gelu`."""

from tests.patterns.recorded import op

BY_TANH = ("mul", "pow", "mul", "add", "mul", "tanh", "add", "mul")
BY_ERF = ("mul", "div", "erf", "add", "mul")


def ops(names, shapes="[[64,512],[]]"):
    return [
        op(number, f"aten::{name}", 10_000, input_shapes=shapes, forward=-1)
        for number, name in enumerate(names)
    ]


GRADIENT = op(30, "PowBackward0", 10_000, forward=1, phase="backward")

FOUND = {"cpu_ops": [*ops(BY_TANH), op(20, "aten::mm", 50_000, forward=-1), GRADIENT]}
EXPECTED = ("cpu_operators.aten::mul", 45_000, 'torch.nn.functional.gelu(x, approximate="tanh")')
PASSED = {
    "the operator": {"cpu_ops": ops(("gelu",))},
    "a gate": {"cpu_ops": ops(("mul", "tanh", "add", "mul"))},
    "a tanh by itself": {"cpu_ops": ops(("pow", "mul", "add", "mul", "tanh"))},
    "other shapes": {
        "cpu_ops": [
            row | {"input_shapes": f"[[64,{number}]]"} for number, row in enumerate(ops(BY_TANH))
        ]
    },
}
