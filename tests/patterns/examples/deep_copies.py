"""Examples of `deep_copies`."""

from tests.patterns.recorded import causes, python

CALLED = "copy.py(128): deepcopy"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "AveragedModel")
PASSED = {
    "a copy of a file": {"python_calls": [python(0, 90_000, "shutil.py(200): copy")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
