"""Ranges of ``record_function`` that begin in one recording of PyTorch's and end in another.

PyTorch (2.13) writes the end of a range into the events of the recording that it began in, whether
they are still there or not, as long as any recording runs: damaged memory. profkit's recording of a
program's first steps, and its ranges around steps, may make such ranges of harmless ones.
"""

import threading
import weakref
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.profiler import record_function


class _Recorded(threading.local):
    """Ranges that a recording of this thread saw begin, open or not."""

    def __init__(self) -> None:
        self.ranges: weakref.WeakSet[record_function] = weakref.WeakSet()


@cache
def end_before_recordings() -> None:
    """From here on, end what a recording saw begin before the next recording starts.

    Nothing is recorded then, so that nothing is written. What ends a second time does nothing.
    """
    import torch
    from torch._C._autograd import _profiler_enabled
    from torch.autograd import profiler

    range_type: Any = profiler.record_function
    enter = range_type.__enter__
    recording_type: Any = profiler.profile
    start = recording_type._start_trace  # noqa: SLF001 - where all recordings start
    recorded = _Recorded()

    @wraps(enter)
    def noted(begun: Any) -> Any:
        entered = enter(begun)
        if _profiler_enabled():
            recorded.ranges.add(begun)
        return entered

    @wraps(start)
    def ended_first(recording: Any) -> Any:
        if not _profiler_enabled():
            ranges, recorded.ranges = recorded.ranges, weakref.WeakSet()
            for begun in ranges:
                torch.ops.profiler._record_function_exit._RecordFunction(begun.record)  # noqa: SLF001
        return start(recording)

    range_type.__enter__ = noted
    recording_type._start_trace = ended_first  # noqa: SLF001
