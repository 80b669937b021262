"""What FP32 products and convolutions would gain on which GPU, and by what."""

import pytest

from profkit.core.hardware import Hardware
from profkit.patterns import patterns
from profkit.testing import found
from tests.patterns.examples.fp32_matmuls import gpu
from tests.patterns.recorded import kernel, op

SGEMM = [kernel(0, "ampere_sgemm_128x64_tn", 80_000)]
TF32, BF16, FP16 = "set_float32_matmul_precision", "bf16 `torch.autocast`", "fp16 `torch.autocast`"


def matches(kernels, *devices, ops=(), **known):
    """Return what the pattern finds."""
    return found(patterns()["fp32_matmuls"], kernels=kernels, cpu_ops=ops, devices=devices, **known)


@pytest.mark.parametrize(
    ("name", "capability", "gain_ns", "words"),
    [
        ("NVIDIA RTX A5000", "8.6", 40_000, TF32),
        ("NVIDIA RTX 500 Ada Generation Laptop GPU", "8.9", 40_000, TF32),
        ("NVIDIA GeForce RTX 3090", "8.6", 40_000, BF16),
        ("NVIDIA A30", "8.0", 80_000 * 6 / 7, TF32),
        ("NVIDIA H20", "9.0", 40_000, TF32),
        ("Quadro RTX 6000", "7.5", 70_000, FP16),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 60_000, FP16),
        ("AMD Radeon Graphics", "9.0", 40_000, BF16),
    ],
)
def test_the_gain_is_the_least_that_gpus_of_that_kind_have(name, capability, gain_ns, words):
    (match,) = matches(SGEMM, gpu(name, capability))
    assert match.gain_ns == pytest.approx(gain_ns)
    assert words in match.advice
    assert (TF32 in match.advice) == (words == TF32)


def test_autocast_makes_attention_in_fp32_faster_too():
    attention = kernel(1, "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)", 20_000)
    (match,) = matches([*SGEMM, attention], gpu("NVIDIA GeForce RTX 3090", "8.6"))
    assert match.gain_ns == 40_000 + 10_000
    (match,) = matches([*SGEMM, attention], gpu("NVIDIA H20", "9.0"))
    assert match.gain_ns == 40_000


def test_the_data_sheet_of_a_gpu_comes_before_its_kind():
    l4 = Hardware(name="L4", peak_flops={"fp32": 30e12, "tf32": 60e12, "bf16": 120e12})
    (match,) = matches(SGEMM, gpu("NVIDIA A30", "8.0"), hardware=l4)
    assert match.gain_ns == 40_000


@pytest.mark.parametrize(
    ("name", "gain_ns"), [("ampere_sgemm_128x64_tn", 40_000), ("volta_sgemm_128x64_tn", 40_000)]
)
def test_of_an_unknown_gpu_little_is_promised(name, gain_ns):
    (match,) = matches([kernel(0, name, 80_000)])
    assert match.gain_ns == gain_ns
    assert (TF32 in match.advice) == name.startswith("ampere")


CONVOLUTION = op(0, "aten::cudnn_convolution")
CUDNN = kernel(0, "_5x_cudnn_ampere_scudnn_128x32_relu_small_nn_v1", 80_000)
IN_TF32 = kernel(0, "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", 9_000)


@pytest.mark.parametrize("others", [[], [IN_TF32]])
def test_convolutions_in_fp32_are_helped_by_no_setting_of_products(others):
    (match,) = matches([CUDNN, *others], gpu("NVIDIA RTX A5000", "8.6"), ops=[CONVOLUTION])
    assert (match.cause, match.gain_ns) == ("gpu_computing.aten::cudnn_convolution", 60_000)
    assert match.advice.startswith("Use bf16 `torch.autocast` and `torch.channels_last`")
    assert "set_float32" not in match.advice
    assert ("allow_tf32" in match.advice) == (not others)
    assert ("TF32 is on" in match.advice) == bool(others)


CAUSE = "gpu_computing.aten::cudnn_convolution"


@pytest.mark.parametrize(
    ("name", "capability", "found"),
    [
        ("NVIDIA RTX A5000", "8.6", [("gpu_computing.aten::mm", 40_000), (CAUSE, 60_000)]),
        ("Tesla V100", "7.0", [(CAUSE, 140_000)]),
    ],
)
def test_products_and_convolutions_are_two_findings_where_there_is_tf32(name, capability, found):
    kernels = [CUDNN, *[row | {"op": 1} for row in SGEMM]]
    ops = [CONVOLUTION, op(1, "aten::mm")]
    made = matches(kernels, gpu(name, capability), ops=ops)
    assert [(match.cause, match.gain_ns) for match in made] == found
    assert "`torch.channels_last`" in made[-1].advice


@pytest.mark.parametrize("trains", [False, True])
def test_gradients_are_scaled_where_there_are_any(trains):
    ops = [op(0, "aten::mm"), *([op(1, "MmBackward0")] if trains else [])]
    (match,) = matches(SGEMM, gpu("Tesla T4", "7.5"), ops=ops)
    assert ("GradScaler" in match.advice) == trains


def test_kernels_without_operators_are_convolutions_by_their_names():
    names = ("_Z12dgrad_engineIfLi128ELi6EEvi", "_Z23implicit_convolve_sgemmIffLi1024ELi5EEviii")
    (match,) = matches([kernel(-1, name, 40_000) for name in names], gpu("Tesla V100", "7.0"))
    assert match.gain_ns == 70_000
    assert "channels_last" in match.advice
