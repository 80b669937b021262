"""Examples of `python_in_the_model`."""

from profkit.testing import span
from tests.patterns.examples.work_beside_the_model import MODEL, called
from tests.patterns.recorded import causes, op

HOOK = "train.py(9): record"


def calls(number, works_ns=30_000):
    """Return a forward pass whose hook runs `number` times, and does not wait for so long."""
    hooks = [
        called(2_000 + 40_000 * at, 32_000 + 40_000 * at, HOOK, works_ns) for at in range(number)
    ]
    rows = [called(0, 200_000, "train.py(30): main"), called(1_000, 190_000, MODEL, 50_000)]
    return [row | {"call": number} for number, row in enumerate([*rows, *hooks])]


FOUND = {
    "python_calls": calls(3),
    "cpu_ops": [op(2, "aten::item", 9_000)],
    "causes": causes(("python.train_py(9): record", 0.08, HOOK)),
}
EXPECTED = ("python.train_py(9): record", 90_000, "train.py(9): record runs inside the model")
FORWARD = "model.py(71): forward"
WHOLE = {
    "python_calls": [
        row | {"name": FORWARD} if row["name"] == HOOK else row for row in FOUND["python_calls"]
    ],
    "causes": causes(("python.model_py(71): forward", 0.08, FORWARD)),
}
AROUND = "serve.py(19): do_POST"


def answers(number):
    """Return what calls the model, and the model, as `number` looks show both: equally long."""
    times = [(1_000 + 40_000 * at, 31_000 + 40_000 * at) for at in range(number)]
    both = [called(*time, name, 15_000) for time in times for name in (AROUND, MODEL)]
    return [row | {"call": at, "caller": at - 1 if at % 2 else -1} for at, row in enumerate(both)]


PASSED = {
    "what calls it, as it is sampled": {
        "python_calls": answers(4),
        "causes": causes(("python.serve_py(19): do_POST", 0.08, AROUND)),
    },
    "it computes": {**FOUND, "cpu_ops": [op(2, "aten::mm", 30_000) | span(2_000, 32_000)]},
    "seen once": {**FOUND, "python_calls": calls(1)},
    "it waits": {**FOUND, "python_calls": calls(3, works_ns=2_000)},
    "outside of the model": {**FOUND, "python_calls": [calls(3)[0], *calls(3)[2:]]},
}
