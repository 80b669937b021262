"""FP32 matrix products: products and convolutions that leave the tensor cores unused."""

import pandas as pd

from profkit.core.hardware import Hardware
from profkit.core.verdict import Confidence
from profkit.patterns._rows import belonging, computing, having
from profkit.patterns._shapes import CONVOLUTIONS, MATMULS
from profkit.patterns.base import CHARGED, Match, charged, pattern
from profkit.tables.kernel_names import ON_CUDA_CORES

_FP32_KERNEL = (
    f"sgemm|_simt_|{ON_CUDA_CORES}|scudnn|gcgemm|fft2d|dgrad_engine<float|wgrad_alg0_engine<float"
)
_TENSOR_CORES = rf"tensorop|tf32|s1688|s884|h884|16816|xmma(?!.*{ON_CUDA_CORES})|nvjet|wgmma"
_VOLTA, _AMPERE = 7, 8
_GAIN = 7 / 8
"""Part of the time that is saved where the peaks are unknown: eight times the rate is usual."""


@pattern(
    title="FP32 matrix products",
    source="https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html",
)
def match(
    kernels: pd.DataFrame, cpu_ops: pd.DataFrame, devices: pd.DataFrame, hardware: Hardware
) -> Match | None:
    """Find FP32 products on CUDA cores of a GPU that has tensor cores."""
    capability = _capability(devices)
    if capability and capability < _VOLTA:
        return None
    of_floats = having(cpu_ops, f"{MATMULS}|{CONVOLUTIONS}")
    of_floats &= having(cpu_ops, r'^\["float"', "input_types")
    slow = having(kernels, _FP32_KERNEL)
    slow |= having(kernels, "^Cijk_") & belonging(kernels, cpu_ops, of_floats)
    slow &= ~having(kernels, _TENSOR_CORES)
    if not slow.any():
        return None
    has_tf32 = "tf32" in hardware.peak_flops or capability >= _AMPERE
    if has_tf32:
        advice = '`torch.set_float32_matmul_precision("high")` and '
        advice += "`torch.backends.cudnn.allow_tf32 = True` (TF32), or bf16 `torch.autocast`"
    else:
        advice = '`torch.autocast("cuda", dtype=torch.float16)` with `torch.amp.GradScaler`'
    rows = kernels[slow]
    return Match(
        cause=computing(rows, cpu_ops),
        advice=f"Use {advice}. These products run on CUDA cores in FP32.",
        gain_ns=charged(rows) * _saved(hardware, "tf32" if has_tf32 else "fp16"),
        confidence=Confidence.HIGH,
        evidence={"kernels": len(rows), "share_of_gpu_time": _share(rows, kernels)},
    )


def _capability(devices: pd.DataFrame) -> float:
    """Return the lowest compute capability, 0 if it is not known."""
    known = pd.to_numeric(devices["capability"].astype(object), errors="coerce").dropna()
    return float(known.min()) if len(known) else 0.0


def _saved(hardware: Hardware, faster: str) -> float:
    peaks = hardware.peak_flops
    if peaks.get(faster) and peaks.get("fp32"):
        return max(0.0, 1 - peaks["fp32"] / peaks[faster])
    return _GAIN


def _share(rows: pd.DataFrame, kernels: pd.DataFrame) -> float:
    return round(float(rows[CHARGED].sum()) / max(float(kernels[CHARGED].sum()), 1.0), 3)
