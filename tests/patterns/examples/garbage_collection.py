"""Examples of `garbage_collection`."""

from tests.patterns.recorded import causes, python

FOUND = {"causes": causes(("gpu_idle", 0.5, ""), ("gpu_idle.garbage_collection", 0.09, ""))}
EXPECTED = ("gpu_idle.garbage_collection", 90_000, "gc.freeze()")
PASSED = {
    "other idle time": {"causes": causes(("gpu_idle.python", 0.5, ""))},
    "collected by hand": {
        "python_calls": [python(0, 40_000, "<built-in function collect>")],
        "causes": causes(("garbage_collection", 0.09, "<built-in function collect>")),
    },
}
