"""Memory that grows with every step: what is said of it, and whether that of a process does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from profkit.core.formatting import size
from profkit.core.verdict import Evidence, MemoryVerdict

KEEP_NO_GRAPH = (
    "Keep no tensor with its graph: `.detach()` or `.item()` for losses that are summed up, "
    "`torch.inference_mode()` where nothing is trained, a limit for lists and caches."
)
OUT_OF_MEMORY = (
    "https://docs.pytorch.org/docs/stable/notes/faq.html"
    "#my-model-reports-cuda-runtime-error-2-out-of-memory"
)
"""The document behind that advice."""

_FEWEST_STEPS = 5
_GROWING = 0.005
_OF_STEPS = 0.8


def growth(
    peak_bytes: int, per_step: float, evidence: Evidence, seen: Mapping[str, Any]
) -> MemoryVerdict:
    """Return the verdict on memory that grows, `seen` on a rank over some steps."""
    return MemoryVerdict(
        headline=f"Memory grows {size(per_step)} with each step; {size(peak_bytes)} so far.",
        is_growing=True,
        peak_bytes=peak_bytes,
        advice=KEEP_NO_GRAPH,
        source=OUT_OF_MEMORY,
        evidence={
            **evidence,
            "rank": int(seen["rank"]),
            "per_step_bytes": per_step,
            "steps": int(seen["steps"]),
        },
    )


def with_growth(memory: MemoryVerdict | None, steps: pd.DataFrame | None) -> MemoryVerdict | None:
    """Return the verdict on memory, or that it grows over all `steps` where that does not know it.

    What was recorded of the memory may be a few steps, or a peak alone.
    """
    grown = growth_of_process(steps)
    if memory is None or grown is None or memory.is_limit or memory.is_growing:
        return memory or grown
    return replace(grown, limit_bytes=memory.limit_bytes)


def growth_of_process(steps: pd.DataFrame | None) -> MemoryVerdict | None:
    """Return the verdict on a process whose peak goes on growing, None where none does.

    What first steps take is kept for later ones, so only the later half of the steps counts.
    """
    if steps is None:
        return None
    found = []
    for _, rows in steps.groupby(["rank", "repeat"], observed=True):
        peaks = rows.sort_values("step")["peak_memory_bytes"].to_numpy(np.int64)
        later = np.diff(peaks[len(peaks) // 2 :])
        has_grown = later > _GROWING * peaks[-1]
        if len(later) >= _FEWEST_STEPS and has_grown.mean() >= _OF_STEPS:
            seen = {"rank": rows["rank"].to_numpy(np.int64)[0], "steps": len(later)}
            found.append(growth(int(peaks[-1]), float(later.mean()), {}, seen))
    return max(found, key=lambda one: one.evidence["per_step_bytes"], default=None)
