"""One large gather: an all-gather far larger than the others, such as that of the logits."""

import numpy as np
import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind, without_waiting
from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import belonging, having, inside, operators_of, place, trains
from profkit.patterns.base import Match, Step, pattern

_LEAST_CALLS = 4
_TIMES_THE_MEDIAN = 8
_TRAINED = "and compute the loss on shards, `loss_parallel()`"
_ANSWERED = "and gather of each shard its largest, or the last token alone"


@pattern(
    title="One large all-gather",
    source="https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html",
)
def match(
    cpu_ops: pd.DataFrame,
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find the all-gathers that are eight times as large as the median one.

    Or take eight times as long, where their sizes were not recorded. Optimizers gather weights.
    """
    calls = of_kind(collectives, "allgather")
    calls &= ~belonging(collectives, cpu_ops, inside(cpu_ops, having(cpu_ops, UPDATE)))
    if calls.sum() < _LEAST_CALLS:
        return None
    length = (collectives["end_ns"] - collectives["start_ns"]).to_numpy(np.int64)
    sizes = collectives["size_bytes"].to_numpy(np.int64)
    extent = sizes if (sizes[calls] > 0).all() else length
    large = calls & (extent >= _TIMES_THE_MEDIAN * np.median(extent[calls]))
    if not large.any():
        return None
    launched = operators_of(collectives[large], cpu_ops)
    exposed_ns = exposed(large, collectives, kernels, causes, step)
    return Match(
        cause=f"{CAUSE}.transfer",
        advice="Leave the output sharded (`ColwiseParallel(use_local_output=False)`), "
        f"{_TRAINED if trains(cpu_ops) else _ANSWERED}, instead of gathering all logits.",
        gain_ns=without_waiting(exposed_ns, causes, step),
        place=place(cpu_ops, launched),
        evidence={"gathers": int(large.sum()), "longest_ms": round(length[large].max() / 1e6, 3)},
    )
