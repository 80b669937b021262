"""What is advised for normalisation in single operators, on GPUs and CPUs."""

import pytest

from profkit.patterns import patterns
from profkit.testing import found
from tests.patterns.examples.unfused_norm import KERNELS, OPS
from tests.patterns.recorded import op

ON_CPU = [row | {"charged_ns": 30_000} for row in OPS]
SUBTRACTED = op(5, "aten::sub", 30_000, module="Model;RMSNorm")
CALLED = op(-1, "aten::rms_norm") | {"end_ns": 9_000}


@pytest.mark.parametrize(
    ("ops", "kernels", "words"),
    [
        (ON_CPU, [], "Fuse it with `torch.compile`"),
        ([*ON_CPU, SUBTRACTED], [], "Use `torch.nn.LayerNorm` in its place"),
        (OPS, KERNELS, "Use `torch.nn.RMSNorm`"),
        ([*OPS, SUBTRACTED], KERNELS, "Use `torch.nn.LayerNorm` in its place"),
        ([CALLED, *[row | {"parent": -1} for row in OPS]], KERNELS, "Fuse it with `torch.compile`"),
    ],
    ids=["RMSNorm, CPU", "LayerNorm, CPU", "RMSNorm", "LayerNorm", "the function of PyTorch"],
)
def test_what_is_advised_computes_the_same_and_is_fused(ops, kernels, words):
    (match,) = found(patterns()["unfused_norm"], cpu_ops=ops, kernels=kernels)
    assert match.advice.startswith(words)
