"""Exposed time of communication calls: of their kernels, else their share of the cause."""

import numpy as np
import pandas as pd

from profkit.patterns._rows import Chosen, equal
from profkit.patterns.base import Step, charged

CAUSE = "exposed_communication"
FSDP = "^FSDP::"
"""Ranges in which FSDP gathers parameters and reduces gradients."""


def exposed(
    chosen: Chosen,
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> float:
    """Return the exposed time of the `chosen` rows of `collectives`, over all steps, in ns."""
    numbers = collectives[["repeat", "collective"]][chosen]
    if not kernels.empty:
        wanted = pd.MultiIndex.from_frame(numbers)
        theirs = pd.MultiIndex.from_frame(kernels[["repeat", "collective"]]).isin(wanted)
        return charged(kernels, theirs & (kernels["collective"] >= 0).to_numpy())
    of_all = causes.loc[causes["id"].astype(str) == CAUSE, "ms_per_step"]
    lasted = (collectives["end_ns"] - collectives["start_ns"]).to_numpy(np.float64)
    if of_all.empty or not lasted.sum():
        return 0.0
    return float(of_all.iloc[0]) * 1e6 * step.count * float(lasted[chosen].sum() / lasted.sum())


def without_waiting(exposed_ns: float, causes: pd.DataFrame, step: Step) -> float:
    """Return at most `exposed_ns`, in ns over all steps: the part that is not waiting for ranks."""
    ms = causes.set_index(causes["id"].astype(str))["ms_per_step"]
    if CAUSE not in ms.index:
        return exposed_ns
    return min(exposed_ns, float(ms[CAUSE] - ms.get(f"{CAUSE}.waiting", 0.0)) * 1e6 * step.count)


def of_kind(collectives: pd.DataFrame, operation: str) -> Chosen:
    """Choose the rows of one operation, such as allreduce."""
    return equal(collectives, "operation", operation)
