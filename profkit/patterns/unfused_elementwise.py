"""Unfused elementwise kernels: many of them, each reading and writing what the next one reads."""

import pandas as pd

from profkit.patterns._rows import Chosen, equal, having
from profkit.patterns._shapes import ELEMENTWISE_KERNEL
from profkit.patterns.base import CHARGED, Match, Step, charged, pattern

_LEAST_SHARE_OF_COMPUTING = 0.25
_NAMED = 2
_GAIN = 2 / 3
"""Three elementwise kernels in one read and write a third; chains are mostly longer."""


@pattern(
    title="Unfused elementwise kernels",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
)
def match(kernels: pd.DataFrame, cpu_ops: pd.DataFrame, step: Step) -> Match | None:
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
        advice=f"Fuse them with `torch.compile(model)`{_of_operators(kernels, plain, cpu_ops)}.",
        gain_ns=time * _GAIN,
        evidence={
            "kernels_per_step": round(int(plain.sum()) / step.count, 1),
            "share_of_computing": round(time / max(charged(kernels, computing), 1.0), 3),
        },
    )


def _of_operators(kernels: pd.DataFrame, chosen: Chosen, cpu_ops: pd.DataFrame) -> str:
    """Return the operators that launched most of the chosen kernels by time, "" if unknown."""
    names = cpu_ops.drop_duplicates("op").set_index("op")["name"].astype(object)
    rows = kernels[chosen]
    times = rows[CHARGED].groupby(rows["op"].map(names)).sum().nlargest(_NAMED)
    named = " and ".join(f"`{name}`" for name in times.index)
    return f": most time is in {named}" if named else ""
