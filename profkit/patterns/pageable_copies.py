"""Pageable copies: inputs that are copied to the GPU from memory that is not pinned."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns.base import Match, Step, charged, pattern


@pattern(
    title="Copies from pageable memory",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
)
def match(kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find exposed copies from pageable memory of the CPU to the GPU."""
    to_gpu = kernels[(kernels["copy_kind"] == "HtoD").to_numpy()]
    pageable = to_gpu["name"].astype(str).str.contains("Pageable", case=False)
    copies = to_gpu[pageable.to_numpy()]
    if copies.empty:
        return None
    size = int(copies["size_bytes"].clip(lower=0).sum())
    return Match(
        cause="exposed_copies.HtoD_pageable",
        advice="Copy from pinned memory, `pin_memory=True` in the DataLoader or "
        "`tensor.pin_memory()`, with `.to(device, non_blocking=True)`.",
        gain_ns=charged(copies),
        confidence=Confidence.HIGH,
        evidence={
            "copies_per_step": round(len(copies) / step.count, 1),
            "size_bytes_per_step": size // step.count,
        },
    )
