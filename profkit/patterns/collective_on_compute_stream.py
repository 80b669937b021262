"""Collectives between kernels: communication on the stream that computes, so never beside it."""

import numpy as np
import pandas as pd

from profkit.patterns._communication import of_kind
from profkit.patterns._rows import equal, having
from profkit.patterns.base import Match, Step, charged, pattern

_ADVICE = (
    "Start collectives with `async_op=True` and wait where the result is needed, or let DDP or "
    "FSDP start them from the backward pass: they then run beside computing."
)
_OF_INFERENCE = (
    "Each layer needs the sum of all ranks before it goes on: split the model over fewer ranks, "
    "or compute larger batches"
)
_IN_ONE_KERNEL = (
    ", or add up in one kernel (`torch.ops.symm_mem.one_shot_all_reduce`, or the custom "
    "all-reduce of the server)"
)
_OF_NCCL = r"(?i)[nr]ccl"


@pattern(
    title="Communication on the computing stream",
    source="https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations",
)
def match(
    kernels: pd.DataFrame, collectives: pd.DataFrame, cpu_ops: pd.DataFrame, step: Step
) -> Match | None:
    """Find communication kernels on the stream with most of the computing kernels.

    Where no gradient is computed and most are all-reduces, layers are split over ranks.
    """
    is_computing, is_sent = (equal(kernels, "kind", kind) for kind in ("compute", "communication"))
    if not is_computing.any():
        return None
    streams = kernels["stream"].to_numpy(np.int64)
    same = is_sent & (streams == kernels["stream"][is_computing].mode().iloc[0])
    if not same.any():
        return None
    has_backward = cpu_ops.empty or bool(equal(cpu_ops, "phase", "backward").any())
    is_split = not has_backward and 2 * of_kind(collectives, "allreduce").sum() > len(collectives)
    by_library = having(kernels, _OF_NCCL)
    in_one = "" if charged(kernels, same & ~by_library) else _IN_ONE_KERNEL
    return Match(
        cause="exposed_communication",
        advice=f"{_OF_INFERENCE}{in_one}." if is_split else _ADVICE,
        gain_ns=min(charged(kernels, same), charged(kernels, ~same)),
        evidence={"kernels_per_step": round(int(same.sum()) / step.count, 1)},
    )
