"""Examples of `dense_table_gradient`."""

from tests.patterns.recorded import op

OPS = [
    op(0, "aten::embedding", input_shapes="[[100000, 16], [64]]"),
    op(1, "aten::embedding_dense_backward", 30_000, input_shapes="[[64, 16], [64]]"),
    op(2, "Optimizer.step#Adam.step", kind="annotation"),
    op(3, "aten::mul_", 40_000, parent=2, input_shapes="[[100000, 16], []]"),
    op(4, "aten::_fused_adam_", 40_000, parent=2, input_shapes="[[[100000, 16], [1600000]], []]"),
    op(5, "aten::mul_", 70_000, parent=2, input_shapes="[[16, 16], []]"),
]

FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::_fused_adam_", 90_000, "sparse=True")
PASSED = {
    "most rows are looked up": {
        "cpu_ops": [OPS[0] | {"input_shapes": "[[100000, 16], [50000]]"}, *OPS[1:]]
    },
    "the last layer has the same weights": {
        "cpu_ops": [
            *OPS,
            op(6, "aten::linear", 9_000, input_shapes="[[64, 16], [100000, 16], []]"),
            op(7, "torch::autograd::AccumulateGrad", input_shapes="[[100000, 16]]"),
        ]
    },
    "sparse gradients": {"cpu_ops": [OPS[0], *OPS[2:]]},
}
