"""Unused GPU: a model that computes on the CPU of a machine with a GPU."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.patterns._rows import GIVES_WORK, Chosen, having, inside
from profkit.patterns.base import Match, charged, pattern

OF_CPUS = r"mkldnn|onednn|fbgemm|_for_cpu"
"""In names of operators that CPUs alone carry out."""

_LAYERS = r"(?:mkldnn|onednn)\w*(?:conv|linear)"

QUEUED = 1_000
"""Launches that a GPU takes before the CPU waits for it, about."""

_LONG_NS = 5_000_000
_MAY_WAIT = r"copy|item|_local_scalar_dense|nonzero|unique|masked_select|empty|pin_memory"
_ASKS, _START_NS = r"^aten::empty(?:_strided)?$", 100_000_000
"""Operators that only ask for memory: the first one for a GPU makes its context."""

_MUCH, _MOSTLY = 0.1, 0.3
_COMPUTES = r"^(?:aten|mkldnn|onednn|_C)::"


@pattern(
    title="The GPU is not used",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code",
    without_gpu=True,
)
def match(
    cpu_ops: pd.DataFrame, devices: pd.DataFrame, runtime_calls: pd.DataFrame
) -> Match | None:
    """Find operators that CPUs alone carry out, with much of the time, where a GPU is named.

    Of layers a smaller part of it tells, as these compute the model. So do those of a short
    recording that last, again and again: a GPU would only be asked. What launches work for one, or
    starts one, has it, though none of that was recorded.
    """
    if having(runtime_calls, GIVES_WORK).any() or starts_device(cpu_ops).any():
        return None
    named = [name for name in devices["name"].astype(str).tolist() if name]
    computing = charged(cpu_ops, having(cpu_ops, _COMPUTES))
    by_rows = (having(cpu_ops, _LAYERS), having(cpu_ops, OF_CPUS) | lasting(cpu_ops))
    surely, likely = (charged(cpu_ops, inside(cpu_ops, chosen)) for chosen in by_rows)
    if not named or not likely or (surely < _MUCH * computing and likely < _MOSTLY * computing):
        return None
    return Match(
        cause="cpu_operators",
        advice=f'Move the model and its inputs to the GPU, `.to("cuda")`: there is {named[0]}, '
        "and no work of it was recorded.",
        gain_ns=computing,
        evidence={"gpus": len(named)},
    )


def starts_device(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose operators that take so long to ask for memory that they start a device."""
    lasted = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy()
    return np.asarray((lasted >= _START_NS) & having(cpu_ops, _ASKS), dtype=np.bool_)


def lasting(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose operators that take longer than it takes to ask a GPU for work; none of many.

    Of `cpu_ops` needed are name, op, parent, start_ns and end_ns. Not those that may wait for a
    GPU, nor the first of a name, which may load its code.
    """
    if len(cpu_ops) >= QUEUED:
        return np.zeros(len(cpu_ops), dtype=np.bool_)
    again = cpu_ops["name"].duplicated().to_numpy()
    computes = having(cpu_ops, _COMPUTES) & ~having(cpu_ops, _MAY_WAIT)
    return again & computes & (own_ns(cpu_ops) >= _LONG_NS)


def own_ns(cpu_ops: pd.DataFrame) -> NDArray[np.int64]:
    """Return the time of each operator, of one rank, without those that it calls."""
    lasted = cpu_ops["end_ns"] - cpu_ops["start_ns"]
    called = lasted.groupby(cpu_ops["parent"]).sum()
    return np.asarray(lasted - cpu_ops["op"].map(called).fillna(0).astype("int64"))
