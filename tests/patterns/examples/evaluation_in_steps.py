"""Examples of `evaluation_in_steps`."""

from tests.patterns.recorded import causes, op, python

CALLED = "train.py(40): evaluate"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "torch.inference_mode()")
PASSED = {
    "the model's eval": {"python_calls": [python(0, 90_000, "module.py(2500): eval")]},
    "a search that evaluates positions, and trains nothing": {
        **FOUND,
        "cpu_ops": [op(0, "aten::linear")],
    },
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
