"""Examples of `pairwise_differences`."""

from tests.patterns.recorded import op

ALL = "[[500, 40, 8], [], []]"


def ops(shapes="[[500, 1, 8], [1, 40, 8], []]", each="aten::square"):
    return [
        op(0, "aten::sub", 50_000, input_shapes=shapes),
        op(1, each, 10_000, input_shapes=ALL),
        op(2, "aten::pow", 30_000, parent=1, input_shapes=ALL),
        op(3, "aten::sum", 30_000, input_shapes=ALL),
        op(4, "aten::argmin", 40_000, input_shapes="[[500, 40], []]"),
        op(5, "aten::mul", 40_000, phase="backward", input_shapes=ALL),
    ]


FOUND = {"cpu_ops": ops("[[500, 1, 8], [40, 8], []]")}
EXPECTED = ("cpu_operators.aten::sub", 140_000, "`torch.cdist(a, b)` takes the distances of 500")
PASSED = {
    "rows of two batches, one by one": {"cpu_ops": ops("[[500, 40, 8], [500, 40, 8], []]")},
    "one row from all": {"cpu_ops": ops("[[500, 40, 8], [1, 1, 8], []]")},
    "few rows": {"cpu_ops": ops("[[500, 1, 8], [1, 4, 8], []]")},
    "numbers": {"cpu_ops": ops("[[500, 1], [1, 40], []]")},
    "no distances": {"cpu_ops": [row for row in ops() if row["name"] != "aten::sum"]},
    "differences that are needed": {
        "cpu_ops": [*ops(), op(7, "aten::mul", input_shapes="[[500, 40, 8], [500, 40, 1]]")]
    },
    "nothing": {},
}
