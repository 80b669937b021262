"""Changes of the memory layout: convolutions that convert between NCHW and NHWC."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import computing, having
from profkit.patterns.base import Match, Step, charged, pattern


@pattern(
    title="Changes of layout around convolutions",
    source="https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
)
def match(kernels: pd.DataFrame, cpu_ops: pd.DataFrame, step: Step) -> Match | None:
    """Find the transposing kernels of cuDNN and MIOpen."""
    changes = having(kernels, r"nchwToNhwc|nhwcToNchw|^batched_transpose_\d")
    if not changes.any():
        return None
    return Match(
        cause=computing(kernels[changes], cpu_ops),
        advice="Call `model.to(memory_format=torch.channels_last)`, and the same for the inputs: "
        "matrix units of GPUs work in NHWC.",
        gain_ns=charged(kernels, changes),
        confidence=Confidence.HIGH,
        evidence={"kernels_per_step": round(int(changes.sum()) / step.count, 1)},
    )
