"""Examples of `deep_copies`."""

from tests.patterns.recorded import causes, op, python

CALLED = "copy.py(128): deepcopy"

FOUND = {
    "python_calls": [python(0, 90_000, CALLED), python(10_000, 20_000, CALLED)],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "AveragedModel")
PASSED = {
    "a copy of a file": {"python_calls": [python(0, 90_000, "shutil.py(200): copy")]},
    "layers that training makes": {
        "python_calls": [python(0, 90_000, "torch/nn/init.py(9): normal_")],
        "causes": FOUND["causes"],
        "cpu_ops": [op(0, "Optimizer.step#Adam.step")],
    },
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
MADE = {
    "python_calls": [
        python(0, 60_000, "torch/nn/modules/sparse.py(9): reset_parameters"),
        python(60_000, 80_000, "torch/serialization.py(9): load"),
    ],
    "causes": FOUND["causes"],
    "cpu_ops": [op(0, "aten::normal_")],
}
LIBRARY, PROGRAM = "torchvision/models/resnet.py(210): __init__", "serve.py(11): load_model"
IN_LIBRARY = {
    **MADE,
    "python_calls": [
        row | {"call": at, "caller": at - 1}
        for at, row in enumerate([
            python(0, 95_000, "serve.py(30): <module>"),
            python(0, 90_000, PROGRAM),
            python(0, 85_000, LIBRARY),
            python(0, 80_000, "torch/nn/modules/conv.py(9): reset_parameters"),
        ])
    ],
}  # fmt: skip
