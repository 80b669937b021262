"""Old attention kernels: FlashAttention 2 on a Hopper GPU, which has faster ones."""

import pandas as pd

from profkit.patterns._rows import computing, having
from profkit.patterns.base import Match, Step, charged, pattern

_GAIN = 1 / 2
"""Up to: the source has 1.5 to 2 times the speed."""
"""FlashAttention 3 is 1.5 to 2 times as fast as FlashAttention 2 on H100, so at least a third."""

_MUCH = 0.2
"""Share of the step from which on another attention kernel is worth the change."""


@pattern(
    title="FlashAttention 2 on Hopper",
    source="https://pytorch.org/blog/flashattention-3/",
)
def match(
    kernels: pd.DataFrame, cpu_ops: pd.DataFrame, devices: pd.DataFrame, step: Step
) -> Match | None:
    """Find FlashAttention 2 kernels beside kernels or devices of compute capability 9.0."""
    old = having(kernels, r"flash_(?:fwd|bwd)(?!_v3|.*(?:sm90|Sm90))")
    hopper = having(kernels, r"^sm90_|^nvjet_|wgmma").any() or (
        devices["capability"].astype(object).astype(str).str.startswith("9.").any()
    )
    if not hopper or charged(kernels, old) < _MUCH * step.ms * 1e6 * step.count:
        return None
    return Match(
        cause=computing(kernels[old], cpu_ops),
        advice="Take cuDNN's attention, `with sdpa_kernel(SDPBackend.CUDNN_ATTENTION)`, or "
        "FlashAttention 3: they use Hopper's asynchronous tensor cores.",
        gain_ns=charged(kernels, old) * _GAIN,
        evidence={"kernels": int(old.sum())},
    )
