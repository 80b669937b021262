"""Examples of `anomaly_detection`."""

from tests.patterns.recorded import op


def backward(check):
    made = []
    for number in range(0, 12, 3):
        made += [
            op(number, "autograd::engine::evaluate_function: MulBackward0"),
            op(number + 1, "MulBackward0", 1_000, parent=number),
            op(number + 2, check, 30_000, parent=number),
        ]
    return {"cpu_ops": made}


FOUND = backward("aten::isnan")
EXPECTED = ("cpu_operators.aten::isnan", 120_000, "set_detect_anomaly")
PASSED = {
    "a plain backward pass": backward("aten::add_"),
    "a check of the loss": {"cpu_ops": [op(0, "aten::isnan", 90_000)]},
}
