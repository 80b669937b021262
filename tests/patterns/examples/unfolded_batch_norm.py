"""Examples of `unfolded_batch_norm`."""

from tests.patterns.recorded import op

CONVOLUTION = op(0, "aten::convolution", 90_000)
NORM = op(1, "aten::batch_norm", 5_000)
OPS = [CONVOLUTION, NORM, op(2, "aten::native_batch_norm", 25_000, parent=1)]

FOUND = {"cpu_ops": OPS}
EXPECTED = ("cpu_operators.aten::native_batch_norm", 30_000, "torch.nn.utils.fuse_conv_bn_eval")
PASSED = {
    "training": {"cpu_ops": [*OPS, op(3, "NativeBatchNormBackward0", 9_000)]},
    "a batch norm before its convolution": {
        "cpu_ops": [*OPS[1:], op(3, "aten::convolution", 90_000)],
    },
    "a batch norm on another thread": {
        "cpu_ops": [row | {"tid": 2} if row is CONVOLUTION else row for row in OPS]
    },
}
