"""NVTX ranges around every function call, by ``nvtx.Profile``."""

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from profkit import marks
from profkit.capture.harness.ranks import nvtx_ranges

# The name of the domain in the package nvtx.
_DOMAIN = "nvtx.py"


@contextmanager
def recorded(*, of_c: bool) -> Iterator[None]:
    """Open a range around each call while the context is open, on this thread and on new ones.

    Ranges are called ``file.py:12(function)`` after the line where the function begins. With `of_c`
    functions written in C have theirs as well, by their bare names. Does nothing if no profiler
    records NVTX, or if the workload has a profile function of its own, which leaves a note.
    """
    if not nvtx_ranges.is_recorded():
        yield
        return
    if sys.getprofile() is not None:
        marks.note("functions have no ranges: the program has a profile function of its own")
        yield
        return
    import nvtx

    profile = nvtx.Profile(linenos=True, annotate_cfuncs=of_c)
    profile.enable()
    if sys.getprofile() is None:
        # It got a dummy domain, see `nvtx_ranges`: enable it as for a real one.
        profile_function = profile._profile  # noqa: SLF001 - nothing public works here
        threading.setprofile(profile_function)
        sys.setprofile(profile_function)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        nvtx_ranges.close_ranges(_DOMAIN, _depth(inspect.currentframe()) + 1)


def _depth(frame: FrameType | None) -> int:
    """Return the depth of the stack, of which each call may have left its range open."""
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
