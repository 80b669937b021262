"""Examples of `short_operators`."""

from tests.patterns.recorded import op, python


def loop(count, charged_ns=500, parent=-1, **columns):
    made = [op(n, "aten::add", charged_ns, parent=parent, **columns) for n in range(1, count + 1)]
    return {"cpu_ops": made, "python_calls": [python(0, 900_000, "model.py(8): forward")]}


OPTIMIZER = op(0, "Optimizer.step#Adam.step") | {"kind": "annotation", "end_ns": 2_000_000}
BACKWARD = [op(n, "aten::mul", 100, phase="backward") for n in range(1_000, 1_200)]
FOUND = loop(700)
BETWEEN_NS = 100
EXPECTED = ("cpu_operators", 350_000 + 699 * BETWEEN_NS, "700 operators per step take 900 ns each")
PASSED = {
    "a few": loop(300, 1_000),
    "long operators": {
        "cpu_ops": [row | {"end_ns": row["start_ns"] + 40_000} for row in FOUND["cpu_ops"]]
    },
    "a small share": loop(700, 100),
    "those of the optimizer": {"cpu_ops": [OPTIMIZER, *loop(700, parent=0)["cpu_ops"]]},
    "those that others call": {
        "cpu_ops": [op(0, "aten::lstm") | {"end_ns": 2_000_000}, *loop(700, parent=0)["cpu_ops"]]
    },
    "time steps of a recurrent layer in backward": {
        "cpu_ops": [
            op(0, "aten::gru"),
            op(1_000, "aten::mm", parent=0),
            op(1_001, "MmBackward0", forward=1_000, phase="backward"),
            *loop(700, parent=1_001, phase="backward")["cpu_ops"],
        ]
    },
    "nothing": {},
}
