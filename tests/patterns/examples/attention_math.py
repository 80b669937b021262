"""Examples of `attention_math`."""

from tests.patterns.recorded import kernel, op

OPS = [
    op(0, "aten::scaled_dot_product_attention"),
    op(1, "aten::_scaled_dot_product_attention_math", parent=0),
    op(2, "aten::bmm", parent=1),
    op(3, "aten::_softmax", parent=1),
]
KERNELS = [kernel(2, "ampere_sgemm_64x32_nn", 60_000), kernel(3, "softmax_warp_forward", 90_000)]

FOUND = {"cpu_ops": OPS, "kernels": KERNELS}
EXPECTED = ("gpu_computing.aten::_softmax", 90_000, "is_causal=True")
PASSED = {
    "dropout of a model that answers, which is in the way": {
        "cpu_ops": [
            *OPS,
            op(4, "aten::dropout", parent=1),
            op(5, "aten::bernoulli_", parent=4),
        ],
        "kernels": KERNELS,
    },
    "a fused backend": {
        "cpu_ops": [op(0, "aten::_scaled_dot_product_flash_attention")],
        "kernels": [kernel(0, "flash_fwd_kernel", 90_000)],
    },
}
