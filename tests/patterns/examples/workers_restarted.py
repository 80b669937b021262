"""Examples of `workers_restarted`."""

from tests.patterns.recorded import causes, python

LOADER = "torch/utils/data/dataloader.py(494): "
CALLED = "multiprocessing/process.py(110): start"

FOUND = {
    "python_calls": [
        python(0, 95_000, f"{LOADER}__init__"),
        python(0, 90_000, CALLED),
        python(10_000, 20_000, CALLED),
    ],
    "causes": causes(("gpu_idle", 0.08, "")),
}
EXPECTED = ("gpu_idle.python", 80_000, "persistent_workers=True")
EPOCH = [
    python(0, 30_000, "train.py(7): fit") | {"call": 0},
    python(0, 30_000, f"{LOADER}__iter__") | {"call": 1, "caller": 0, "charged_ns": 10_000},
    python(5_000, 25_000, CALLED) | {"call": 2, "caller": 1, "charged_ns": 20_000},
    python(30_000, 50_000, f"{LOADER}__next__") | {"call": 3, "charged_ns": 20_000},
    python(60_000, 70_000, f"{LOADER}__next__") | {"call": 4, "charged_ns": 10_000},
]
PASSED = {
    "persistent workers": {"python_calls": [*EPOCH[:2], *EPOCH[3:]]},
    "a thread": {"python_calls": [python(0, 90_000, "threading.py(938): start")]},
    "a process that the program was forked in": {
        **FOUND,
        "python_calls": [python(0, 90_000, CALLED), python(1_000, 89_000, "train.py(30): run")],
    },
    "a busy GPU": {**FOUND, "causes": causes(("gpu_idle", 0.001, ""))},
}
