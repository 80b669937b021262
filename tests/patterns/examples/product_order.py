"""Examples of `product_order`: linear attention that makes scores of all pairs of positions."""

from tests.patterns.recorded import kernel, op

NODE = "autograd::engine::evaluate_function: BmmBackward0"
QUERIES, KEYS, VALUES = "[8,1024,32]", "[8,32,1024]", "[8,1024,32]"
SCORES = "[8,1024,1024]"


def product(number, *given, charged_ns=80_000, **columns):
    return op(number, "aten::bmm", charged_ns, input_shapes=f"[{','.join(given)}]", **columns)


def between(number, name, *given):
    return op(number, name, input_shapes=f"[{','.join(given)}]")


FIRST, SECOND = product(0, QUERIES, KEYS), product(10, SCORES, VALUES)
VIEWS = [between(1, "aten::view", SCORES, "[]"), between(2, "aten::copy_", VALUES, VALUES)]
BACKWARD = [
    op(20, NODE, phase="backward", forward=10),
    product(21, SCORES, VALUES, phase="backward", parent=20),
]

FOUND = {"cpu_ops": [FIRST, *VIEWS, SECOND, *BACKWARD]}
# 2 * 32 * 32 * 1,024 of 2 * 32 * 1,024 * 1,024 multiplications are left.
EXPECTED = ("cpu_operators.aten::bmm", 240_000 * (1 - 1 / 32), "`a @ (b @ c)` in place of")
PASSED = {
    "a softmax of the scores": {
        "cpu_ops": [FIRST, between(3, "aten::_softmax", SCORES, "[]", "[]"), SECOND]
    },
    "an activation of a compiler's making": {
        "cpu_ops": [FIRST, between(3, "triton_poi_fused_gelu_1", SCORES, "[]"), SECOND]
    },
    "the same, which no operator launches": {
        "cpu_ops": [FIRST, SECOND],
        "kernels": [kernel(0, "gemm", 9), kernel(-1, "triton_poi_fused_gelu_1", 5)],
    },
    "an operator whose inputs are not known": {
        "cpu_ops": [FIRST, op(3, "mine::activation"), SECOND]
    },
    "scores that are no larger": {
        "cpu_ops": [
            product(0, "[8,40,32]", "[8,32,40]"),
            product(10, "[8,40,40]", "[8,40,32]"),
        ]
    },
    "another product between them": {"cpu_ops": [FIRST, product(5, "[8,7,7]", "[8,7,7]"), SECOND]},
    "layers that have one input, of which the second makes less": {
        "cpu_ops": [
            product(0, "[1,4096,1024]", "[1,1024,1024]"),
            product(10, "[1,4096,1024]", "[1,1024,256]"),
        ]
    },
    "products of nothing": {
        "cpu_ops": [product(0, "[8,0,32]", "[8,32,16]"), product(10, "[8,0,16]", "[8,16,2]")]
    },
    "products on two threads": {"cpu_ops": [FIRST, SECOND | {"tid": 2}]},
    "shapes that were not recorded": {
        "cpu_ops": [row | {"input_shapes": ""} for row in FOUND["cpu_ops"]]
    },
}
