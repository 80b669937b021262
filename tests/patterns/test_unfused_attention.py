"""What is advised for attention in single operators."""

import pytest

from profkit.patterns import patterns
from profkit.testing import found
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
