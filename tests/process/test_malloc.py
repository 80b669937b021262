"""Memory that is freed and needed again."""

import subprocess
import sys

import pytest

# Blocks as large as those that a trace is read in, one after the other.
BLOCKS = """
import resource, sys
from profkit.process import malloc
if sys.argv[1] == "kept":
    malloc.keep_freed()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        b"".join([bytes(1 << 20) for _ in range(4)])
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def faulted_in(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS, how], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_freed_memory_is_kept_for_the_next_block():
    assert faulted_in("kept") < faulted_in("as it is") / 10


# Every thread asks the C library for memory; malloc_info lists the places that it comes from.
THREADS = """
import ctypes, sys, threading
from profkit.process import malloc
if sys.argv[1] == "shared":
    malloc.share()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for _ in range(4):
    thread = threading.Thread(target=lambda: libc.malloc(100_000))
    thread.start()
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_threads_share_one_place_for_memory():
    def places(how: str) -> int:
        command = [sys.executable, "-c", THREADS, how]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.count("<heap nr=")

    assert places("shared") == 1 < places("as it is")
