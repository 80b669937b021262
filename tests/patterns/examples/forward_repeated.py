"""Examples of `forward_repeated`."""

from tests.patterns.recorded import op


def passes(*, is_trained, draws="aten::linear"):
    """Return a step of two passes, of which the first is trained, and maybe the second."""
    again = op(4, draws, 40_000, phase="forward")
    backward = [op(5, "AddmmBackward0", 20_000, forward=2, phase="backward")]
    backward += [op(6, "AddmmBackward0", 20_000, forward=4, phase="backward")] * is_trained
    ranges = [
        op(number, "forward") | {"kind": "annotation", "start_ns": begin, "end_ns": begin + 9_000}
        for number, begin in ((1, 0), (3, 10_000))
    ]
    first = op(2, "aten::linear", 40_000, phase="forward") | {"start_ns": 1_000, "end_ns": 8_000}
    again |= {"start_ns": 11_000, "end_ns": 18_000}
    return [*ranges, first, again, *backward]


FOR_METRICS = [{"calls": 64, "again": 0, "after": 32}]
IN_A_ROW = [{"calls": 64, "again": 32, "after": 0}]
FOUND = {"cpu_ops": passes(is_trained=False), "repeated_inputs": FOR_METRICS}
EXPECTED = ("cpu_operators.aten::linear", 40_000, "no gradient follows")
PASSED = {
    "nothing was counted": {"cpu_ops": passes(is_trained=False)},
    "weights that changed, as by SAM": FOUND | {"cpu_ops": passes(is_trained=True)},
    "other inputs": FOUND | {"repeated_inputs": [{"calls": 64, "again": 0, "after": 2}]},
    "the same batch in each step": FOUND
    | {"repeated_inputs": [{"calls": 64, "again": 0, "after": 63}]},
    "dropout that differs": {
        "cpu_ops": passes(is_trained=True, draws="aten::native_dropout"),
        "repeated_inputs": IN_A_ROW,
    },
    "inference": {"cpu_ops": passes(is_trained=False)[:4], "repeated_inputs": IN_A_ROW},
}
