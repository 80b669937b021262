"""Examples of `anomaly_detection`."""

from tests.patterns.recorded import op, python


def backward(check):
    made = []
    for number in range(0, 12, 3):
        made += [
            op(number, "autograd::engine::evaluate_function: MulBackward0"),
            op(number + 1, "MulBackward0", 1_000, parent=number),
            op(number + 2, check, 30_000, parent=number),
        ]
    return {"cpu_ops": made}


STACKS = [
    python(0, 50_000, "train.py(3): main"),
    python(10_000, 50_000, "traceback.py(213): format_stack") | {"charged_ns": 40_000},
]
FOUND = backward("aten::isnan") | {"python_calls": STACKS}
EXPECTED = ("cpu_operators.aten::isnan", 160_000, "set_detect_anomaly")
PASSED = {
    "a plain backward pass": backward("aten::add_"),
    "a check of the loss": {"cpu_ops": [op(0, "aten::isnan", 90_000)]},
}
