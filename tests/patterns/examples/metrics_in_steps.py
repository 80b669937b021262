"""Examples of `metrics_in_steps`."""

from tests.patterns.recorded import causes, python

COMPUTED = "torchmetrics/metric.py(709): wrapped_func"
LOGGED = "lightning/pytorch/core/module.py(404): log"

FOUND = {
    "python_calls": [python(0, 90_000, COMPUTED), python(10_000, 20_000, COMPUTED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "once at the end of an epoch")
PASSED = {
    "values that are logged": {
        **FOUND,
        "python_calls": [python(0, 95_000, LOGGED), python(0, 90_000, COMPUTED)],
    },
    "how a metric is made": {
        **FOUND,
        "python_calls": [python(0, 90_000, "torchmetrics/metric.py(100): __init__")],
    },
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
