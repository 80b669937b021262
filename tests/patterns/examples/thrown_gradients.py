"""Examples of `thrown_gradients`: a critic learns from what a generator made, and that from it."""

from profkit.patterns.base import Step
from tests.patterns.examples.unused_gradients import GRADIENT, NODE, update
from tests.patterns.recorded import op, python

CRITIC = ([512, 784], [512], [1, 512], [1])
GENERATOR = ([1024, 64], [1024], [784, 1024], [784])


def backward(first, *gradients):
    """Return a pass of a product of 100 us, and one of 20 us, for each gradient.

    With each shape it is given whether there is a gradient to add to.
    """
    rows = [op(first, "backward", kind="annotation", phase="backward")]
    for number, (shape, adds) in enumerate(gradients):
        at = first + 1 + 10 * number
        rows += [
            op(at, f"{NODE}MmBackward0"),
            op(at + 1, "aten::mm", 100_000, parent=at),
            op(at + 2, f"{NODE}{GRADIENT}"),
            op(at + 3, GRADIENT, 20_000, parent=at + 2, input_shapes=f"[{shape}]"),
        ]
        if adds:
            rows.append(op(at + 4, "aten::add_", parent=at + 3, input_shapes=f"[{shape}]"))
    return rows


def of(shapes, *, adds=False):
    return [(shape, adds) for shape in shapes]


def steps(of_critic, of_generator, between=()):
    """Return three steps of two passes, each with the step of its optimizer behind it."""
    rows = []
    for step in range(3):
        first = 1_000 * step
        rows += [
            *backward(first, *of_critic),
            *[row | {"op": row["op"] + first} for row in between],
            *update(first + 200, "aten::_fused_adam_", [*CRITIC]),
            *backward(first + 300, *of_generator),
            *update(first + 500, "aten::_fused_adam_", [*GENERATOR]),
        ]
    return rows


# The critic's loss is of what the generator made, and the generator's of what the critic says.
LEARNS = [*of(CRITIC), *of(GENERATOR, adds=True)]
IS_TOLD = [*of(CRITIC, adds=True), *of(GENERATOR)]
LINE = "train.py(20): d_step"

FOUND = {
    "step": Step(count=3, ms=1.0),
    "cpu_ops": steps(LEARNS, IS_TOLD),
    "python_calls": [
        python(1_000_000 * step + at * 1_000, 1_000_000 * step + (at + 100) * 1_000, line)
        for step in range(3)
        for at, line in ((0, LINE), (300, "train.py(30): g_step"))
    ],
}
_SHARE = 402_433 / (402_433 + 870_160)
# Four of the generator's, all of which is for nothing, and the weights' half of the critic's.
EXPECTED = (
    "cpu_operators.aten::mm",
    3 * (4 * 120_000 + _SHARE / 2 * 8 * 120_000),
    "gradients of 8 tensors that are set to none",
)
PASSED = {
    "each loss trains its own": {
        **FOUND,
        "cpu_ops": steps(of(CRITIC), of(GENERATOR)),
    },
    "no gradient is ever set to none": {
        **FOUND,
        "cpu_ops": steps(
            [*of(CRITIC, adds=True), *of(GENERATOR, adds=True)],
            [*of(CRITIC, adds=True), *of(GENERATOR, adds=True)],
        ),
    },
    "gradients that the program copies": {
        **FOUND,
        "cpu_ops": steps(
            [*of(CRITIC), *of(GENERATOR)],
            of(GENERATOR),
            [
                op(190 + at, "aten::clone", input_shapes=f"[{shape}]")
                for at, shape in enumerate(GENERATOR)
            ],
        ),
    },
    "a closure that the optimizer calls": {
        **FOUND,
        "cpu_ops": [
            op(-1, "Optimizer.step#LBFGS.step", kind="annotation") | {"end_ns": 3_000_000},
            *FOUND["cpu_ops"],
        ],
    },
    "gradients that are differentiated again": {
        **FOUND,
        "cpu_ops": [*FOUND["cpu_ops"], op(2_990, f"{NODE}MulBackwardBackward0", forward=2)],
    },
    "shapes that were not recorded": {
        **FOUND,
        "cpu_ops": [row | {"input_shapes": ""} for row in FOUND["cpu_ops"]],
    },
    "lists so long that their shapes are not recorded": {
        **FOUND,
        "cpu_ops": [*FOUND["cpu_ops"], op(2_990, "aten::_foreach_norm", input_shapes="[[]]")],
    },
    "ranks that share out the parameters": {
        **FOUND,
        "collectives": [{"operation": "allreduce"}, {"operation": "broadcast"}],
    },
}
