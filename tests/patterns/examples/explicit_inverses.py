"""Examples of `explicit_inverses`."""

from tests.patterns.recorded import op


def ops(rows, determinant="aten::_linalg_slogdet"):
    of, node = f"[[{rows}, {rows}]]", "autograd::engine::evaluate_function: LinalgInvExBackward0"
    return [
        op(0, "aten::linalg_inv_ex", 10_000, input_shapes=of),
        op(1, "aten::linalg_lu_solve", 50_000, parent=0, input_shapes=of),
        op(2, determinant, 20_000, input_shapes=of),
        op(3, node, phase="backward"),
        op(4, "aten::mm", 40_000, parent=3, phase="backward"),
    ]


FOUND = {"cpu_ops": ops(300)}
EXPECTED = ("cpu_operators.aten::linalg_lu_solve", 60_000, "its diagonal gives the determinant")
PASSED = {
    "rotations": {"cpu_ops": ops(4)},
    "no inverse": {"cpu_ops": ops(300)[2:]},
    "an optimizer": {
        "cpu_ops": [
            op(9, "Optimizer.step#Shampoo.step", kind="annotation"),
            *({**row, "parent": 9} if row["op"] == 0 else row for row in ops(300)),
        ]
    },
    "nothing": {},
}
