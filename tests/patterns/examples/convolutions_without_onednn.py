"""Examples of `convolutions_without_onednn`."""

from tests.patterns.recorded import op

SHAPES = {"input_shapes": "[[5,64,56,56],[64,64,3,3],[]]"}
SLOW = [
    op(0, "aten::conv2d"),
    op(1, "aten::_slow_conv2d_forward", 80_000, parent=0, **SHAPES),
    op(2, "aten::addmm", 20_000, parent=1),
]

FOUND = {"cpu_ops": SLOW}
EXPECTED = ("cpu_operators.aten::_slow_conv2d_forward", 50_000, 'GPU, `.to("mps")`')
PASSED = {
    "weights of one element for few images": {
        "cpu_ops": [SLOW[0], SLOW[1] | {"input_shapes": "[[8,64,56,56],[64,64,1,1],[]]"}, SLOW[2]]
    },
    "oneDNN": {"cpu_ops": [op(0, "aten::mkldnn_convolution", 80_000, **SHAPES)]},
    "a small image, for which oneDNN is no faster": {
        "cpu_ops": [SLOW[0], SLOW[1] | {"input_shapes": "[[1,3,32,32],[8,3,3,3],[]]"}, SLOW[2]]
    },
}
