"""Examples of `slices_in_a_loop`."""

from tests.patterns.recorded import op

NODE = "autograd::engine::evaluate_function: SelectBackward0"


def sliced(count, charged_ns=20_000, node=NODE):
    rows = []
    for number in range(count):
        backward = {"phase": "backward", "forward": number}
        rows += [
            op(number, "aten::select"),
            op(100 + 2 * number, node, **backward),
            op(101 + 2 * number, "aten::fill_", charged_ns, 100 + 2 * number, **backward),
        ]
    return sorted(rows, key=lambda row: row["op"])


FOUND = {"cpu_ops": sliced(10)}
EXPECTED = ("cpu_operators.aten::fill_", 200_000, "`x.unbind(dim)`")
PASSED = {
    "a few": {"cpu_ops": sliced(4, 100_000)},
    "one of many that takes the time": {
        "cpu_ops": [
            row | ({"end_ns": row["end_ns"] + 900_000} if row["op"] == 100 else {})
            for row in sliced(10)
        ]
    },
    "little time": {"cpu_ops": sliced(10, 1_000)},
    "parts that are taken at once": {
        "cpu_ops": sliced(10, node=NODE.replace("Select", "Unbind")),
    },
}
