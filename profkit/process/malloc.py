"""Settings of the C library's allocator and of Python's garbage collector."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 32 << 20
"""Memory to keep: half of it is too little for reading a block, more has no effect."""
_LARGEST_BYTES = 8 << 20
"""Size above which an array has pages of its own, which go back when it is freed."""


def keep_freed() -> None:
    """Keep up to 32 MiB of freed memory in this process for its next use (Linux only).

    By default every few MiB go back to the system and are faulted in again, a page at a time: a
    program that works block by block spends a tenth of its time on that.
    """
    _set(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    _set(_M_MMAP_THRESHOLD, _LARGEST_BYTES)


def share() -> None:
    """Let all threads take memory from one place (Linux only).

    By default each of Arrow's keeps what it frees, of no use for the thread that computes.
    """
    _set(_M_ARENA_MAX, 1)


def _set(option: int, value: int) -> None:
    import ctypes  # noqa: PLC0415 - what reads no large file does without

    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(option, value)


@contextmanager
def uncollected(*, keeps: bool = False) -> Iterator[None]:
    """Pause garbage collection, which takes half of the time with millions of live objects.

    What there is by then is never looked through again if it `keeps` nearly all, as of modules.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keeps:
            gc.freeze()
        if collecting:
            gc.enable()
