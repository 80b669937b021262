"""Examples of `unfused_optimizer`."""

from tests.patterns.recorded import op

STEP = "Optimizer.step#AdamW.step"

OF_A_PARAMETER = ["mul_", "lerp_", "addcmul_", "sqrt", "div", "add_", "add_", "addcdiv_"]


def updates(parameters, operators=OF_A_PARAMETER):
    names = operators * parameters
    return [
        op(number, f"aten::{name}", 4_000 if name == "addcdiv_" else 1_500, parent=0)
        for number, name in enumerate(names, start=1)
    ]


FOUND = {"cpu_ops": [op(0, STEP, kind="annotation"), *updates(3)]}
# One operator of eight is left of each parameter, which takes as long as the two `add_`.
EXPECTED = ("cpu_operators.aten::addcdiv_", 32_625, "torch.optim.AdamW(..., fused=True)")
PASSED = {
    "an optimizer of Apex": {
        "cpu_ops": [op(0, "Optimizer.step#FusedAdam.step"), *FOUND["cpu_ops"][1:]]
    },
    "an optimizer of sparse gradients": {
        "cpu_ops": [
            op(0, STEP.replace("AdamW", "SparseAdam"), kind="annotation"),
            *FOUND["cpu_ops"][1:],
        ]
    },
    "a fused optimizer": {
        "cpu_ops": [op(0, STEP, kind="annotation"), op(1, "aten::_fused_adamw_", 90_000, parent=0)]
    },
    "a fused optimizer on the CPU, which counts the steps of each parameter": {
        "cpu_ops": [
            op(0, STEP, kind="annotation"),
            op(1, "aten::_fused_adamw_", 90_000, parent=0),
            op(2, "aten::_foreach_add_", 1_000, parent=0),
            *[op(number, "aten::add_", 1_500, parent=2) for number in range(3, 103)],
        ]
    },
    "a step that runs the model in a closure": {
        "cpu_ops": [
            *FOUND["cpu_ops"],
            op(101, "autograd::engine::evaluate_function: AddmmBackward0", 1_500, parent=0),
        ]
    },
    "the same operators elsewhere": {
        "cpu_ops": [row | {"parent": -1} for row in updates(12)],
    },
    "one operator for each parameter": {
        "cpu_ops": [
            op(0, STEP.replace("AdamW", "SGD"), kind="annotation"),
            *updates(100, ["add_"]),
        ]
    },
}
