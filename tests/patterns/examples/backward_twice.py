"""Examples of `backward_twice`."""

from tests.patterns.recorded import op

NODE = "autograd::engine::evaluate_function: AddmmBackward0"


def node(number, forward, **columns):
    return op(number, NODE, forward=forward, phase="backward", **columns)


FORWARD = [op(0, "aten::addmm"), op(1, "aten::addmm")]
FIRST = [node(10, 1), node(11, 0), op(12, "aten::mm", 100_000, 11, phase="backward")]
AGAIN = [node(20, 0), op(21, "aten::mm", 200_000, 20, phase="backward")]

FOUND = {"cpu_ops": [*FORWARD, *FIRST, *AGAIN]}
EXPECTED = ("cpu_operators.aten::mm", 200_000, "go through 1 operators once more in a step")
PASSED = {
    "once": {"cpu_ops": [*FORWARD, *FIRST]},
    "gradients of gradients": {"cpu_ops": [*FOUND["cpu_ops"], node(30, 12)]},
    "of operators that are not known": {
        "cpu_ops": [row | {"forward": -1} if "forward" in row else row for row in FOUND["cpu_ops"]],
    },
}
