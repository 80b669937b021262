"""Broadcast buffers: DDP sends the statistics of batch norm before each forward."""

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import Chosen, cause, having, inside, per_step, time
from profkit.patterns._shapes import CONVOLUTIONS, MATMULS
from profkit.patterns.base import Match, Step, pattern

_BROADCAST = r"broadcast|aten::(?:un)?flatten_dense_tensors"


@pattern(
    title="Buffers broadcast before each forward",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.parallel.DistributedDataParallel.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find what DDP's forward does with buffers before the model's first product."""
    forward = having(cpu_ops, r"^DistributedDataParallel\.forward")
    below = inside(cpu_ops, forward)
    sent = below & having(cpu_ops, _BROADCAST)
    if not sent.any():
        return None
    chosen = below & ~forward & _before_model(cpu_ops, forward)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Create `DistributedDataParallel(model, broadcast_buffers=False)`, or use "
        "`torch.nn.SyncBatchNorm`, where ranks may keep statistics of their own.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place="DistributedDataParallel.forward",
        confidence=Confidence.HIGH,
        evidence={"forwards_per_step": per_step(forward, step.count)},
    )


def _before_model(cpu_ops: pd.DataFrame, forward: Chosen) -> Chosen:
    """Choose the rows that start in a forward before its first product or convolution."""
    start = cpu_ops["start_ns"].to_numpy(np.int64)
    first = having(cpu_ops, f"{MATMULS}|{CONVOLUTIONS}|^aten::(?:conv\\dd|linear|embedding)$")
    model = np.sort(start[first])
    begin = np.sort(start[forward])
    if not len(model) or not len(begin):
        return np.zeros(len(cpu_ops), dtype=bool)
    end = np.append(model, np.iinfo(np.int64).max)[np.searchsorted(model, begin)]
    of = np.searchsorted(begin, start, side="right") - 1
    return np.asarray((of >= 0) & (start < end[of.clip(min=0)]))
