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
