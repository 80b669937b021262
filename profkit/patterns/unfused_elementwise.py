"""Unfused elementwise kernels: many of them, each reading and writing what the next one reads."""

import pandas as pd

from profkit.patterns._rows import equal, having
from profkit.patterns._shapes import ELEMENTWISE_KERNEL
from profkit.patterns.base import Match, Step, charged, pattern

_LEAST_SHARE_OF_COMPUTING = 0.25
_GAIN = 2 / 3
"""Three elementwise kernels in one read and write a third; chains are mostly longer."""


@pattern(
    title="Unfused elementwise kernels",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
)
def match(kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find elementwise kernels outside the optimizer that make up much of the computing time."""
    outside = (kernels["phase"].astype(object) != "optimizer").to_numpy(dtype=bool)
    plain = having(kernels, ELEMENTWISE_KERNEL) & ~having(kernels, "multi_tensor_apply") & outside
    computing = equal(kernels, "kind", "compute")
    plain &= computing
    time = charged(kernels, plain)
    if time <= _LEAST_SHARE_OF_COMPUTING * charged(kernels, computing):
        return None
    return Match(
        cause="gpu_computing",
        advice="Fuse them with `torch.compile(model)`. Or use fused layers: "
        "`torch.nn.RMSNorm`, `torch.nn.LayerNorm`, fused rotary embedding.",
        gain_ns=time * _GAIN,
        evidence={
            "kernels_per_step": round(int(plain.sum()) / step.count, 1),
            "share_of_computing": round(time / max(charged(kernels, computing), 1.0), 3),
        },
    )
