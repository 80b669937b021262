"""Examples of `unfused_attention`."""

from tests.patterns.recorded import kernel, op

SCORES = "[[8, 128, 128], [], []]"
OPS = [
    op(0, "aten::bmm", input_shapes="[[8, 128, 64], [8, 64, 128]]", module="Attention"),
    op(1, "aten::div", module="Attention"),
    op(2, "aten::_softmax", input_shapes=SCORES, stack="train.py(1): main;model.py(7): forward"),
    op(3, "aten::bmm", input_shapes="[[8, 128, 128], [8, 128, 64]]"),
    op(4, "aten::mm"),
]
KERNELS = [kernel(number, "k", 10_000 * (number + 1)) for number in range(5)]

FOUND = {"cpu_ops": OPS, "kernels": KERNELS}
EXPECTED = ("gpu_computing.aten::_softmax", 20_000 + 30_000, " in model.py(7): forward")
MATH = "aten::_scaled_dot_product_attention_math"
PASSED = {
    "the function took its math backend": {
        "cpu_ops": [
            op(-1, MATH) | {"end_ns": 4_000},
            *[row | {"parent": -1} for row in OPS],
        ],
        "kernels": KERNELS,
    },
    "weights that are changed by a sign": {
        "cpu_ops": [
            *OPS[:3],
            op(3, "aten::mul", input_shapes="[[8, 128, 128], [8, 128, 128]]"),
            op(4, "aten::bmm", input_shapes="[[8, 128, 128], [8, 128, 64]]"),
        ],
        "kernels": KERNELS,
    },
    "a router between products of experts": {
        "cpu_ops": [row | {"input_shapes": "[[128, 8], [], []]"} for row in OPS],
        "kernels": KERNELS,
    },
    "scores that are sums of two products of a column each": {
        "cpu_ops": [
            row | {"input_shapes": "[[8, 128, 64], [8, 64, 1]]"} if row["op"] == 0 else row
            for row in OPS
        ],
        "kernels": KERNELS,
    },
    "a softmax after plain products": {
        "cpu_ops": [row | {"name": row["name"].replace("bmm", "addmm")} for row in OPS],
        "kernels": KERNELS,
    },
}
