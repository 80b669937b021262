"""Examples of `checkpoints_in_steps`."""

from tests.patterns.recorded import causes, python

CALLED = "torch/serialization.py(900): save"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "async_save")
PASSED = {
    "another save": {"python_calls": [python(0, 90_000, "plot.py(9): save")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
