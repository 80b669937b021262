"""Examples of `weights_cloned`."""

from tests.patterns.recorded import op


def clones(count, **columns):
    return {"cpu_ops": [op(n, "aten::clone", 90_000 // count, **columns) for n in range(count)]}


FOUND = clones(10)
EXPECTED = ("cpu_operators.aten::clone", 90_000, "torch._foreach_copy_")
PASSED = {
    "clones of a model": clones(10, module="Model;Block"),
    "a few": clones(2),
    "numbers": clones(10, input_shapes="[[]]"),
    "states of a loop": clones(10, input_shapes="[[8, 64]]"),
    "inside another operator": {
        "cpu_ops": [op(0, "aten::contiguous")]
        + [op(n, "aten::clone", 9_000, parent=0) for n in range(1, 11)]
    },
}
