"""Examples of `recomputed_forward`."""

from tests.patterns.recorded import op, python

NODE = "autograd::engine::evaluate_function: NativeLayerNormBackward0"
OPS = [
    op(0, "aten::linear", 50_000),
    op(1, "aten::layer_norm", 20_000),
    op(2, NODE) | {"end_ns": 9_000},
    op(3, "aten::linear", parent=2),
    op(4, "aten::addmm", 50_000, parent=3),
    op(5, "aten::layer_norm", 20_000, parent=2),
    op(6, "autograd::engine::evaluate_function: AddmmBackward0", parent=2),
    op(7, "aten::mm", 90_000, parent=6),
]

FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::addmm", 70_000, "`torch.utils.checkpoint` where")
PASSED = {
    "a backward pass": {"cpu_ops": [*OPS[:2], OPS[6] | {"parent": -1}, OPS[7]]},
    "a function that calls a layer in its own backward": {"cpu_ops": OPS[:5]},
}

CHECKPOINT = "torch/utils/checkpoint.py(519): checkpoint"
CALLS = [
    python(0, 900, "net.py(14): forward") | {"call": 0},
    python(100, 800, CHECKPOINT) | {"call": 1, "caller": 0},
]
