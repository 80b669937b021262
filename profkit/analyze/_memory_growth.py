"""Memory that grows with every step: what is said of it, and whether that of a process does."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profkit.core.formatting import size
from profkit.core.verdict import Evidence, MemoryVerdict

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
        advice="Keep no tensor with its graph: `.detach()` or `.item()` for losses that are "
        "summed up, a limit for lists and caches.",
        source="https://docs.pytorch.org/docs/stable/notes/faq.html"
        "#my-model-reports-cuda-runtime-error-2-out-of-memory",
        evidence={
            **evidence,
            "rank": int(seen["rank"]),
            "per_step_bytes": per_step,
            "steps": int(seen["steps"]),
        },
    )


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
