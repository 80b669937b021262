"""Examples of `zeroed_gradients`."""

from tests.patterns.recorded import op

CALL = op(0, "Optimizer.zero_grad#SGD.zero_grad", kind="annotation")

FOUND = {"cpu_ops": [CALL, op(1, "aten::zero_", 90_000, parent=0)]}
EXPECTED = ("cpu_operators.aten::zero_", 90_000, "set_to_none=True")
PASSED = {
    "gradients dropped": {"cpu_ops": [CALL | {"charged_ns": 90_000}]},
    "zeros elsewhere": {"cpu_ops": [CALL, op(1, "aten::zero_", 90_000)]},
}
