"""Examples of `workers_restarted`."""

from tests.patterns.recorded import causes, python

CALLED = "multiprocessing/process.py(110): start"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "persistent_workers=True")
PASSED = {
    "a thread": {"python_calls": [python(0, 90_000, "threading.py(938): start")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
