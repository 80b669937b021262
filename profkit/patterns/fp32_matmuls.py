"""FP32 matrix products: products and convolutions that leave the tensor cores unused."""

from collections.abc import Iterator

import pandas as pd

from profkit.core.hardware import Hardware
from profkit.core.verdict import Confidence
from profkit.patterns._product_rates import Rates, product_rates
from profkit.patterns._rows import belonging, computing, having, inside
from profkit.patterns._shapes import CONVOLUTIONS, MATMULS
from profkit.patterns.base import CHARGED, Match, charged, pattern
from profkit.tables.kernel_names import ON_CUDA_CORES

_CONVOLVES = (
    r"scudnn|gcgemm|fft2d|plicit_convolve|(?:dgrad|wgrad_alg0)_engine|xmma_(?:fprop|[dw]grad)"
)
_FP32_KERNEL = (
    f"sgemm|_simt_|{ON_CUDA_CORES}|scudnn|gcgemm|fft2d|(?:dgrad|wgrad_alg0)_engine(?:<float|If)"
)
_TENSOR_CORES = rf"tensorop|tf32|s1688|s884|h884|16816|xmma(?!.*{ON_CUDA_CORES})|nvjet|wgmma"
_TRAINS = "[bB]ackward"


@pattern(
    title="FP32 matrix products",
    source="https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html",
)
def match(
    kernels: pd.DataFrame, cpu_ops: pd.DataFrame, devices: pd.DataFrame, hardware: Hardware
) -> Iterator[Match]:
    """Find FP32 products and convolutions on CUDA cores of a GPU that has tensor cores."""
    of_floats = having(cpu_ops, f"{MATMULS}|{CONVOLUTIONS}")
    of_floats &= having(cpu_ops, r'^\["float"', "input_types")
    slow = having(kernels, _FP32_KERNEL)
    slow |= having(kernels, "^Cijk_") & belonging(kernels, cpu_ops, of_floats)
    slow &= ~having(kernels, _TENSOR_CORES)
    rates = product_rates(kernels, devices, hardware)
    if not slow.any() or max(rates.tf32, rates.half) <= 1:
        return
    half = _half(rates, trains=bool(having(cpu_ops, _TRAINS).any()))
    convolves = having(kernels, _CONVOLVES)
    convolves |= belonging(kernels, cpu_ops, inside(cpu_ops, having(cpu_ops, CONVOLUTIONS)))
    takes_tf32 = bool((convolves & having(kernels, "tf32")).any())
    for rows, (advice, rate), confidence in (
        (kernels[slow & ~convolves], _of_products(rates, half), Confidence.HIGH),
        # What cuDNN takes then depends on the sizes.
        (kernels[slow & convolves], _of_convolutions(rates, half, takes_tf32), Confidence.MEDIUM),
    ):
        if len(rows):
            yield Match(
                cause=computing(rows, cpu_ops),
                advice=advice,
                gain_ns=charged(rows) * (1 - 1 / rate),
                confidence=confidence,
                evidence={
                    "kernels": len(rows),
                    "share_of_gpu_time": _share(rows, kernels),
                    "times_the_rate": round(rate, 1),
                },
            )


def _half(rates: Rates, *, trains: bool) -> str:
    """Return what makes products run in a type of 16 bits."""
    if rates.has_bf16:
        return "bf16 `torch.autocast`"
    scaled = " with `torch.amp.GradScaler`" if trains else ""
    return f'`torch.autocast("cuda", dtype=torch.float16)`{scaled}'


def _of_products(rates: Rates, half: str) -> tuple[str, float]:
    """Return what is said of matrix products, and how many times the rate they have then."""
    reason = "These products run on CUDA cores in FP32."
    if rates.tf32 > 1:
        other = f", or {half}" if rates.half > rates.tf32 else ""
        use = f'Use `torch.set_float32_matmul_precision("high")` (TF32){other}.'
        return f"{use} {reason}", rates.tf32
    slow = " TF32 is no faster than that on this GPU." if rates.tf32 else ""
    return f"Use {half}. {reason}{slow}", rates.half


def _of_convolutions(rates: Rates, half: str, takes_tf32: bool) -> tuple[str, float]:
    """Return the same of convolutions, which may take TF32 unless a setting forbids it."""
    use = f"Use {half} and `memory_format=torch.channels_last`"
    reason = "These convolutions run on CUDA cores in FP32"
    if takes_tf32:
        reason += ", although others take TF32"
    elif rates.tf32 > 1:
        use += "; leave `torch.backends.cudnn.allow_tf32 = True`, its default"
    return f"{use}. {reason}.", max(rates.tf32, rates.half)


def _share(rows: pd.DataFrame, kernels: pd.DataFrame) -> float:
    return round(float(rows[CHARGED].sum()) / max(float(kernels[CHARGED].sum()), 1.0), 3)
