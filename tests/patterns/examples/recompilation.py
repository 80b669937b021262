"""Examples of `recompilation`."""

from tests.patterns.recorded import causes, python

FOUND = {"causes": causes(("compiler", 0.09, "train.py(3): step"))}
EXPECTED = ("compiler", 90_000, 'TORCH_LOGS="recompiles"')
CALLED = [
    python(0, 90_000, "train.py(9): main") | {"call": 0, "caller": -1},
    python(0, 90_000, "torch/_dynamo/convert_frame.py(9): compile")
    | {"call": 1, "caller": 0, "charged_ns": 45_000},
]
PASSED = {"other work": {"causes": causes(("python", 0.5, "compiler.py(3): run"))}}
