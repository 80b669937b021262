"""Ranges around steps and phases that profilers see: record_function's and NVTX's."""

from contextlib import AbstractContextManager

import nvtx
from torch.profiler import record_function

from profkit.marks import Marker


def markers() -> tuple[Marker, ...]:
    """Return what opens a range for each family of profilers."""
    return (record_function, _nvtx_range)


def _nvtx_range(name: str) -> AbstractContextManager[object]:
    span: AbstractContextManager[object] = nvtx.annotate(message=name)
    return span
