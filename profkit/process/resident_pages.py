"""Pages of loaded files that a process has in memory, to have them in its forks from the start.

A fork has them once it uses them, so that it would seem to need less memory than a program of its
own that has loaded the same.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

# <asm-generic/mman-common.h>, since Linux 5.14
_MADV_POPULATE_READ = 22
_PRESENT_SHIFT = 63
"""Of the bit in an entry of pagemap that says whether its page is in memory."""
_ENTRY_BYTES = 8
_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


class Pages(NamedTuple):
    """Some that follow each other."""

    address: int
    length_bytes: int


def resident() -> list[Pages]:
    """Return those of this process; none where the system does not tell."""
    maps, pagemap = Path("/proc/self/maps"), Path("/proc/self/pagemap")
    if not os.access(pagemap, os.R_OK):
        return []
    mappings = maps.read_text().splitlines()
    with pagemap.open("rb", buffering=0) as entries:
        return [pages for mapping in mappings for pages in _present(mapping.split(), entries)]


def _present(mapping: Sequence[str], entries: IO[bytes]) -> Iterator[Pages]:
    """Yield the pages of a line of ``/proc/self/maps`` that are in memory, if it is of a file."""
    span, path = mapping[0], mapping[-1]
    if not path.startswith("/"):
        return
    start, end = (int(address, 16) // mmap.PAGESIZE for address in span.split("-"))
    entries.seek(start * _ENTRY_BYTES)
    words = np.frombuffer(entries.read((end - start) * _ENTRY_BYTES), dtype=np.uint64)
    is_present = np.pad((words >> np.uint64(_PRESENT_SHIFT)).astype(np.int8), 1)
    changes = np.flatnonzero(np.diff(is_present)).tolist()
    for first, behind in zip(changes[::2], changes[1::2], strict=True):
        yield Pages((start + first) * mmap.PAGESIZE, (behind - first) * mmap.PAGESIZE)


def populate(pages: Sequence[Pages]) -> bool:
    """Have `pages` of files in the memory of this process; return whether the system can do it."""
    return not any(
        _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_POPULATE_READ)
        for start, length in pages
    )
