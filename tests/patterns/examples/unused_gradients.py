"""Examples of `unused_gradients`."""

from tests.patterns.recorded import op

NODE = "autograd::engine::evaluate_function: "
GRADIENT = "torch::autograd::AccumulateGrad"
SHAPES = ([512, 128], [512], [512, 512], [512])
HEAD = ([10, 512], [10])


def backward(first, shapes):
    """Return a pass that accumulates a gradient of each of the `shapes`, 10 us, and 90 us of mm."""
    rows = [op(first, f"{NODE}MmBackward0"), op(first + 1, "aten::mm", 90_000, parent=first)]
    for number, shape in enumerate(shapes, start=1):
        at = first + 2 * number
        rows += [
            op(at, f"{NODE}{GRADIENT}"),
            op(at + 1, GRADIENT, 10_000, parent=at, input_shapes=f"[{shape}]"),
        ]
    return rows


def update(first, operator, *inputs, optimizer="AdamW"):
    """Return an optimizer's step of one operator, for each of its first inputs."""
    step = op(first, f"Optimizer.step#{optimizer}.step", kind="annotation")
    return [step] + [
        op(first + number, operator, parent=first, input_shapes=f"[{one}]")
        for number, one in enumerate(inputs, start=1)
    ]


MARK = op(0, "backward", kind="annotation")
FROZEN = [MARK, *backward(1, [*SHAPES, *HEAD])]
ALL = [MARK, *backward(1, [*SHAPES, *SHAPES])]

FOUND = {"cpu_ops": [*FROZEN, *update(100, "aten::addcdiv_", *HEAD)]}
# Of 6 gradients 4 are not used, which are nearly all of the elements.
EXPECTED = ("cpu_operators.aten::mm", 150_000 * 328_704 / 333_834, "requires_grad_(False)")
PASSED = {
    "gradients that are differentiated again": {
        "cpu_ops": [*FOUND["cpu_ops"], op(200, f"{NODE}MulBackwardBackward0", forward=2)]
    },
    "all parameters updated": {
        "cpu_ops": [*FROZEN, *update(100, "aten::_fused_adamw_", [*SHAPES, *HEAD])]
    },
    "lists so long that their shapes are not recorded": {
        "cpu_ops": [
            *FROZEN,
            *update(100, "aten::_foreach_addcdiv_", [*HEAD]),
            *update(110, "aten::_foreach_addcdiv_", []),
        ]
    },
    "parts of parameters, which have other shapes": {
        "cpu_ops": [*FROZEN, *update(100, "aten::_fused_adamw_", [[5, 512], [10]])]
    },
    "ranks that share out the parameters": {
        **FOUND,
        "collectives": [{"operation": "allreduce"}, {"operation": "broadcast"}],
    },
    "two optimizers, of which one adds alone": {
        "cpu_ops": [
            *FROZEN,
            *update(100, "aten::addcdiv_", *HEAD),
            *update(110, "aten::add_", *SHAPES, optimizer="SGD"),
        ]
    },
    "two passes before each step": {
        "cpu_ops": [
            MARK,
            *backward(1, [*SHAPES, *HEAD]),
            op(50, "backward", kind="annotation"),
            *backward(51, [*SHAPES, *HEAD]),
            *update(100, "aten::addcdiv_", *SHAPES, *HEAD),
        ]
    },
    "more gradients than updates of a shape, of passes that are not known": {
        "cpu_ops": [*ALL[1:], *update(100, "aten::addcdiv_", *SHAPES)]
    },
    "the gradient of an input": {
        "cpu_ops": [
            MARK,
            *backward(1, [*HEAD, [64, 128], [64]]),
            *update(100, "aten::addcdiv_", *HEAD),
        ]
    },
    "shapes that were not recorded": {
        "cpu_ops": [row | {"input_shapes": ""} for row in FOUND["cpu_ops"]]
    },
}
