"""Examples of `garbage_collection`."""

from tests.patterns.recorded import causes

FOUND = {"causes": causes(("gpu_idle", 0.5, ""), ("gpu_idle.garbage_collection", 0.09, ""))}
EXPECTED = ("gpu_idle.garbage_collection", 90_000, "gc.freeze()")
PASSED = {"other idle time": {"causes": causes(("gpu_idle.python", 0.5, ""))}}
