"""Examples of `work_beside_the_model`."""

from profkit.testing import span
from tests.patterns.recorded import causes, op, python

MODEL = "torch/nn/modules/module.py(1776): _call_impl"
PENALTY = "train.py(9): penalty"


def called(start_ns, end_ns, name, charged_ns=0):
    return python(start_ns, end_ns, name) | {"charged_ns": charged_ns}


CALLS = [
    called(0, 200_000, "train.py(30): main"),
    called(1_000, 20_000, MODEL, 19_000),
    called(20_000, 110_000, PENALTY, 90_000),
    called(111_000, 180_000, PENALTY, 60_000),
]
# It begins a little before the first look at the function that calls it.
LATE = op(19, "aten::mm", 100_000) | span(19_500, 40_000)

FOUND = {
    "python_calls": [row | {"call": number} for number, row in enumerate(CALLS)],
    "cpu_ops": [LATE, op(300, "aten::mm", 7_000)],
    "causes": causes(("python.train_py(9): penalty", 0.05, PENALTY)),
}
EXPECTED = ("cpu_operators.aten::mm", 150_000, "train.py(9): penalty runs outside of the calls of")
PASSED = {
    "the model itself": {
        **FOUND,
        "python_calls": [
            called(0, 200_000, MODEL),
            called(20_000, 110_000, PENALTY, 90_000),
            called(111_000, 180_000, PENALTY, 60_000),
        ],
    },
    "a search with what the model gave": {
        **FOUND,
        "cpu_ops": [*FOUND["cpu_ops"], op(301, "aten::topk", 1_000) | span(50_000, 51_000)],
    },
    "what a server does for its connection": {
        **FOUND,
        "python_calls": [
            *FOUND["python_calls"],
            *(
                called(begin, begin + 60_000, "http/server.py(530): end_headers", 100_000)
                | {"call": number, "caller": number - 2}
                for number, begin in ((4, 30_000), (5, 112_000))
            ),
        ],
    },
    "seen once": {**FOUND, "python_calls": FOUND["python_calls"][:3]},
    "all of backward, as by torch.autograd.grad": {
        **FOUND,
        "cpu_ops": [LATE | {"phase": "backward"}, *FOUND["cpu_ops"][1:]],
    },
    "what a library does": {
        **FOUND,
        "python_calls": [
            row
            | {"name": row["name"].replace("train.py(9)", "transformers/generation/utils.py(9)")}
            for row in FOUND["python_calls"]
        ],
    },
    "a loss": {
        **FOUND,
        "cpu_ops": [*FOUND["cpu_ops"], op(400, "MmBackward0", forward=19)],
    },
    "a function that waits": {
        **FOUND,
        "python_calls": [row | {"charged_ns": 0} for row in FOUND["python_calls"]],
    },
    "a line that calls the model, in steps behind the traced ones as well": {
        **FOUND,
        "python_calls": [
            called(0, 200_000, "train.py(9): <module>", 90_000),
            called(1_000, 80_000, MODEL),
            called(200_000, 9_000_000, "train.py(9): <module>", 60_000),
            called(201_000, 280_000, MODEL),
        ],
        "causes": causes(("python.train_py(9): <module>", 0.05, "train.py(9): <module>")),
    },
    "an optimizer's step, all frames of which last as long as the look at them": {
        **FOUND,
        "python_calls": [
            row | {"call": number}
            for number, row in enumerate(
                [
                    *CALLS[:3],
                    called(20_000, 110_000, "torch/optim/adam.py(248): step"),
                    CALLS[3],
                    called(111_000, 180_000, "torch/optim/adam.py(248): step"),
                ]
            )
        ],
    },
    "a program without modules": {**FOUND, "python_calls": FOUND["python_calls"][2:]},
}
