"""Ranges around steps and phases that profilers see: record_function's and NVTX's."""

from torch.profiler import record_function

from profkit.capture.harness.ranks import nvtx_ranges
from profkit.marks import Marker


def markers() -> tuple[Marker, ...]:
    """Return what opens a range for each family of profilers; NVTX's only if somebody listens."""
    return (record_function, nvtx_ranges.spans()) if nvtx_ranges.is_heard() else (record_function,)
