"""Examples of `padded_batches`."""

from tests.patterns.recorded import Row, op

ROWS, LENGTH = 4, 10


def batch(padding: int = 30, longest: int = LENGTH) -> Row:
    """Return one of the first batches."""
    return {"rows": ROWS, "length": LENGTH, "longest": longest, "padding": padding}


OPS = [
    op(
        0,
        "aten::embedding",
        10_000,
        phase="forward",
        input_shapes=f"[[99, 8], [{ROWS}, {LENGTH}], [], []]",
    ),
    op(
        1,
        "aten::addmm",
        60_000,
        phase="backward",
        input_shapes=f"[[8], [{ROWS * LENGTH}, 8], [8, 8], [], []]",
    ),
    op(
        2,
        "aten::bmm",
        30_000,
        phase="forward",
        input_shapes=f"[[{2 * ROWS}, {LENGTH}, 4], [{2 * ROWS}, 4, 10]]",
    ),
    op(3, "aten::add_", 50_000, phase="forward", input_shapes="[[8, 8], [8, 8], []]"),
    op(4, "aten::mul", 50_000, phase="optimizer", input_shapes="[[40, 8], []]"),
    op(5, "aten::select", 50_000, input_shapes="[[4, 10], [], []]"),
]
FOUND = {"cpu_ops": OPS, "padded_inputs": [batch()]}
EXPECTED = ("cpu_operators.aten::addmm", 75_000, "75% of the tokens are padding: ")
PASSED = {
    "little padding": {"cpu_ops": OPS, "padded_inputs": [batch(5)]},
    "not known": {"cpu_ops": OPS},
    "shapes not recorded": {
        "cpu_ops": [row | {"input_shapes": ""} for row in OPS],
        "padded_inputs": [batch()],
    },
}
