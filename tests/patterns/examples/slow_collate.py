"""Examples of `slow_collate`."""

from tests.patterns.recorded import causes, python

CALLED = "torch/utils/data/_utils/collate.py(300): default_collate"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "collate_fn")
PASSED = {
    "a dataset": {"python_calls": [python(0, 90_000, "data.py(3): __getitem__")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
