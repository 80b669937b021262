"""Examples of `logging_in_steps`."""

from tests.patterns.recorded import causes, python

CALLED = "wandb/sdk/wandb_run.py(1700): log"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "every 50 to 100 steps")
PASSED = {
    "a loop below a progress bar": {
        **FOUND,
        "python_calls": [python(0, 90_000, "tqdm/std.py(1181): __iter__")],
    },
    "a logarithm": {"python_calls": [python(0, 90_000, "math.py(3): log10")]},
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
