"""Unused GPU: a model that computes on the CPU of a machine with a GPU."""

import pandas as pd

from profkit.patterns._rows import having, inside
from profkit.patterns.base import Match, charged, pattern

OF_CPUS = r"mkldnn|onednn|fbgemm|_for_cpu"
"""In names of operators that CPUs alone carry out."""

_MOSTLY = 0.3
_COMPUTES = r"^(?:aten|mkldnn|onednn|_C)::"


@pattern(
    title="The GPU is not used",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code",
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, devices: pd.DataFrame) -> Match | None:
    """Find operators that CPUs alone carry out, with much of the time, where a GPU is named."""
    named = [name for name in devices["name"].astype(str).tolist() if name]
    computing = charged(cpu_ops, having(cpu_ops, _COMPUTES))
    on_cpu = charged(cpu_ops, inside(cpu_ops, having(cpu_ops, OF_CPUS)))
    if not named or on_cpu < _MOSTLY * computing or not on_cpu:
        return None
    return Match(
        cause="cpu_operators",
        advice=f'Move the model and its inputs to the GPU, `.to("cuda")`: there is {named[0]}, '
        "and no work of it was recorded.",
        gain_ns=computing,
        evidence={"gpus": len(named)},
    )
