"""Examples of `unchanged_input`."""

from tests.patterns.recorded import op


def steps(*, draws="aten::linear", is_trained=False):
    """Return two steps of two passes: of a text encoder, and of a sampler."""
    rows = []
    for step in range(2):
        begin = 100_000 * step
        for place, name in enumerate((draws, "aten::conv2d")):
            at, number = begin + 40_000 * place, 10 * step + 3 * place
            span = {"kind": "annotation", "start_ns": at, "end_ns": at + 35_000, "step": step}
            rows.append(op(number, "forward") | span)
            made = op(number + 1, name, 30_000, phase="forward") | {"step": step}
            rows.append(made | {"start_ns": at + 1_000, "end_ns": at + 31_000})
        if is_trained:
            rows.append(op(10 * step + 8, "AddmmBackward0", 2_000, forward=10 * step + 1))
    return rows


OF_ENCODER = {"place": 0, "calls": 32, "again": 29, "across": 28, "after": 0}
OF_SAMPLER = {"place": 1, "calls": 32, "again": 1, "across": 1, "after": 0}
FOUND = {"cpu_ops": steps(), "repeated_inputs": [OF_ENCODER, OF_SAMPLER]}
EXPECTED = ("cpu_operators.aten::linear", 52_500, "for each new input")
IN_TURN = {"place": 0, "calls": 64, "again": 0, "across": 31, "after": 0}
PASSED = {
    "nothing was counted": {"cpu_ops": steps()},
    "one input for all that is measured": FOUND
    | {"repeated_inputs": [OF_ENCODER, OF_ENCODER | {"place": 1}]},
    "a model that is alone": FOUND | {"repeated_inputs": [OF_ENCODER]},
    "calls in one step": FOUND | {"repeated_inputs": [OF_ENCODER | {"across": 0}, OF_SAMPLER]},
    "few calls": FOUND
    | {"repeated_inputs": [OF_ENCODER | {"calls": 3, "again": 3, "across": 3}, OF_SAMPLER]},
    "dropout that differs": FOUND | {"cpu_ops": steps(draws="aten::native_dropout")},
    "a model that is trained": FOUND | {"cpu_ops": steps(is_trained=True)},
}
