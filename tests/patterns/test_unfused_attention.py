"""What is advised for attention in single operators."""

import pytest

from profkit.core.verdict import Confidence
from profkit.patterns import patterns
from profkit.testing import found
from tests.patterns.examples import attention_math
from tests.patterns.examples.unfused_attention import KERNELS, OPS
from tests.patterns.recorded import op


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("drops", [False, True])
def test_dropout_is_left_out_where_the_cpu_has_no_fused_kernel_with_it(drops, on_gpu):
    dropped = op(5, "aten::bernoulli_") | {
        "start_ns": OPS[2]["end_ns"],
        "end_ns": OPS[3]["start_ns"],
    }
    charged = [row | {"charged_ns": 100_000} for row in [*OPS, *([dropped] if drops else [])]]
    kernels = {"kernels": KERNELS} if on_gpu else {}
    (match,) = found(patterns()["unfused_attention"], cpu_ops=charged, **kernels)
    assert ("`dropout_p=0`" in match.advice) == (drops and not on_gpu)


@pytest.mark.parametrize(
    ("kernels", "gain_ns"),
    [
        ([], 200_000),
        (KERNELS, 50_000),
        ([row | {"name": "ampere_bf16_s16816gemm_bf16_64x64"} for row in KERNELS], 100_000),
    ],
    ids=["CPU", "CUDA cores", "tensor cores"],
)
def test_products_stay_but_for_what_tensor_cores_wait_for_memory(kernels, gain_ns):
    charged = [row | {"charged_ns": 0 if kernels else 100_000} for row in OPS]
    (match,) = found(patterns()["unfused_attention"], cpu_ops=charged, kernels=kernels)
    assert match.gain_ns == gain_ns


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mul", "[[8, 128, 128], [8, 1, 1]]"),
        ("aten::masked_fill", "[[8, 128, 128], [8, 128, 128]]"),
    ],
)
def test_weights_that_are_scaled_by_head_or_masked_are_those_of_attention(name, shapes):
    between = op(3, name, input_shapes=shapes)
    last = op(4, "aten::bmm", input_shapes=OPS[3]["input_shapes"])
    assert found(
        patterns()["unfused_attention"], cpu_ops=[*OPS[:3], between, last], kernels=KERNELS
    )


def test_an_own_softmax_is_one_unless_there_is_another_or_no_product_makes_its_scores():
    pattern = patterns()["unfused_attention"]
    own = [row | {"name": row["name"].replace("_softmax", "exp")} for row in OPS]
    (match,) = found(pattern, cpu_ops=own, kernels=KERNELS)
    assert (match.gain_ns, match.confidence) == (50_000, Confidence.MEDIUM)
    mask = op(3, "aten::mul", input_shapes="[[8, 128, 128], [8, 128, 128]]")
    assert found(pattern, cpu_ops=[*own[:3], mask, own[3] | {"op": 4}], kernels=KERNELS)
    elsewhere = op(9, "aten::_softmax", input_shapes="[[8, 10]]")
    assert found(pattern, cpu_ops=[*own, elsewhere], kernels=KERNELS) == ()
    features = [
        row | {"input_shapes": "[[8, 128, 64]]"} if row["name"] == "aten::exp" else row
        for row in own
    ]
    assert found(pattern, cpu_ops=features, kernels=KERNELS) == ()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_products_of_the_math_backend_stay_as_well(on_gpu):
    given = {"kernels": attention_math.KERNELS} if on_gpu else {}
    ops = [row | {"charged_ns": 0 if on_gpu else 10_000} for row in attention_math.OPS]
    (match,) = found(patterns()["attention_math"], cpu_ops=ops, **given)
    assert match.gain_ns == (90_000 if on_gpu else 20_000)


def test_attention_of_a_model_that_answers_with_dropout_is_gained_by_ending_that():
    drops = [op(4, "aten::dropout", parent=1), op(5, "aten::bernoulli_", parent=4)]
    ops = [row | {"charged_ns": 10_000} for row in (*attention_math.OPS, *drops)]
    (match,) = found(patterns()["dropout_in_inference"], cpu_ops=ops)
    # All of it but the product.
    assert match.gain_ns == 40_000
