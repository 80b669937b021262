"""Whether what a profiler holds of a long step fills the memory, before the step ends."""

import os
import time
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/statm")
"""Pages of this process, the second number those that are in memory (Linux only)."""

_FIRST_CALLS = 4
_PERIOD_S = 0.1
_FULL_BYTES = 1 << 29
"""About 300,000 events, which take as much again, and half a minute, until they are read."""


class StepMemory:
    """Compares the memory of this process at calls of the model with that at an early one.

    Gradients and activations are there by the first few calls of a step, mostly, and what is freed
    between calls is not counted: what grows from call to call is what the profiler holds.
    """

    def __init__(self) -> None:
        self.calls = self.at_first = 0
        self.next_s = 0.0
        self.is_known = _STATUS.is_file()

    def begin_step(self) -> None:
        """Begin a step."""
        self.calls = self.at_first = 0

    def is_full(self) -> bool:
        """Say so at a call of the model, which begins."""
        self.calls += 1
        # To look takes as long as a few operators.
        if self.calls < _FIRST_CALLS or not self.is_known or time.monotonic() < self.next_s:
            return False
        self.next_s = time.monotonic() + _PERIOD_S
        now = _resident_bytes()
        self.at_first = self.at_first or now
        return now - self.at_first > _FULL_BYTES


def _resident_bytes() -> int:
    # Where a process has too many files open, it cannot be read.
    with suppress(OSError):
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
