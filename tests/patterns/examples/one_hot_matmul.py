"""Examples of `one_hot_matmul`."""

from tests.patterns.recorded import op

OPS = [
    op(0, "aten::one_hot", input_shapes="[[64], []]", stack="net.py(3): forward"),
    op(1, "aten::scatter_", 20_000, parent=0, input_shapes="[[64, 5000], [], [64, 1], []]"),
    op(2, "aten::mm", 70_000, input_shapes="[[64, 5000], [5000, 32]]"),
    op(3, "aten::_to_copy", input_shapes="[[64, 5000], [], []]"),
    op(4, "aten::copy_", 5_000, parent=3, input_shapes="[[64, 5000], [64, 5000]]"),
]

FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::mm", 95_000, "torch.nn.Embedding")
PASSED = {
    "a product of another size": {
        "cpu_ops": [*OPS[:2], OPS[2] | {"input_shapes": "[[64, 128], [128, 32]]"}]
    },
    "a product over as many as there are indices": {
        "cpu_ops": [*OPS[:2], OPS[2] | {"input_shapes": "[[32, 64], [64, 32]]"}]
    },
    "a scatter that is no one-hot matrix": {"cpu_ops": OPS[1:3]},
}
