"""What the C library does with memory that is freed, and Python's collector with what is not."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 32 << 20
"""Half of it is too little for what reading a block needs; more is kept for nothing."""
_LARGEST_BYTES = 8 << 20
"""Beyond it an array has pages of its own, which go back when it is freed."""


def keep_freed() -> None:
    """Have this process keep freed memory for what it needs next, up to 32 MiB (Linux only).

    By default every few MiB go back to the system and are faulted in again, a page at a time: a
    program that works block by block spends a tenth of its time on that.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage: among millions of new objects that all stay it takes half of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
