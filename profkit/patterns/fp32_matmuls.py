"""FP32 matrix products: products and convolutions that leave the tensor cores unused."""

from collections.abc import Iterator

import pandas as pd

from profkit.core.hardware import Hardware
from profkit.core.verdict import Confidence
from profkit.patterns._product_rates import Rates, product_rates
from profkit.patterns._rows import Chosen, belonging, computing, having, inside
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
_FP32_ATTENTION = "fmha_cutlass[FB]_f32"
_TRAINS = "[bB]ackward"
_LAYOUT = "`torch.channels_last`"
_REASON = "These products run on CUDA cores in FP32."


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
    for chosen, advice, rate, confidence in _findings(kernels, slow, convolves, rates, half):
        rows = kernels[chosen]
        yield Match(
            cause=computing(rows, cpu_ops),
            advice=advice,
            gain_ns=charged(rows) * (1 - 1 / rate),
            confidence=confidence,
            evidence={
                "kernels": len(rows),
                "share_of_gpu_time": _share(rows, kernels),
                "possible_rate_ratio": round(rate, 1),
            },
        )


def _half(rates: Rates, *, trains: bool) -> str:
    """Return what makes products run in a type of 16 bits."""
    if rates.has_bf16:
        return "bf16 `torch.autocast`"
    return f"fp16 `torch.autocast`{' with `torch.amp.GradScaler`' if trains else ''}"


def _findings(
    kernels: pd.DataFrame, slow: Chosen, convolves: Chosen, rates: Rates, half: str
) -> Iterator[tuple[Chosen, str, float, Confidence]]:
    """Yield `slow` kernels, what is said of them, and how many times the rate they have then.

    Convolutions may take TF32 unless a setting forbids it, so that theirs are a finding apart.
    """
    if rates.tf32 <= 1:
        layout = f" and {_LAYOUT}" if (slow & convolves).any() else ""
        no_faster = " TF32 is no faster than that on this GPU." if rates.tf32 else ""
        gaining = slow | having(kernels, _FP32_ATTENTION)
        yield gaining, f"Use {half}{layout}. {_REASON}{no_faster}", rates.half, Confidence.HIGH
        return
    products, convolutions = slow & ~convolves, slow & convolves
    if products.any():
        other = f", or {half}" if rates.half > rates.tf32 else ""
        use = f'Use `torch.set_float32_matmul_precision("high")` (TF32){other}.'
        yield products, f"{use} {_REASON}", rates.tf32, Confidence.HIGH
    if convolutions.any():
        use = f"Use {half} and {_LAYOUT}"
        if (convolves & having(kernels, "tf32")).any():
            said = f"{use}. TF32 is on, and these convolutions run on CUDA cores in FP32."
        else:
            said = f"{use}; leave `torch.backends.cudnn.allow_tf32 = True`, its default. {_REASON}"
        # Which kernels cuDNN takes then depends on the sizes.
        yield convolutions, said, max(rates.tf32, rates.half), Confidence.MEDIUM


def _share(rows: pd.DataFrame, kernels: pd.DataFrame) -> float:
    return round(float(rows[CHARGED].sum()) / max(float(kernels[CHARGED].sum()), 1.0), 3)
