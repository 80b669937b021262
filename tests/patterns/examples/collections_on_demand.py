"""Examples of `collections_on_demand`."""

from tests.patterns.recorded import causes, python

CALLED = "<built-in function collect>"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, ""), ("gpu_idle.garbage_collection", 0.07, CALLED)),
}
EXPECTED = ("gpu_idle.garbage_collection", 70_000, "gc.freeze()")
OF_LIBRARY = [
    python(0, 90_000, "torch/_dynamo/convert_frame.py(3): compile") | {"call": 0, "caller": -1},
    python(0, 90_000, CALLED) | {"call": 1, "caller": 0},
]
PASSED = {
    "of a library": {"python_calls": OF_LIBRARY, "causes": causes(("gpu_idle", 0.08, ""))},
    "another collection": {"python_calls": [python(0, 90_000, "data.py(3): collect")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
