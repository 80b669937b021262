"""Memory limit: end a capture that takes all memory before the machine stalls.

And tell, of a process that was killed, whether memory ran out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# Left to the system and to the harness: without it every process would wait for pages.
_LEFT_BYTES = 256 << 20
_LEFT_PART = 100
# Below this part, programs such as earlyoom and systemd-oomd begin to kill.
_SHORT_PART = 10
_MB = 1_000_000
# How often the kernel killed a process because memory ran out: on this machine, in this cgroup.
_COUNTERS = tuple(
    map(Path, ("/proc/vmstat", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.oom_control"))
)
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def kernel_kills(counters: Sequence[Path] = _COUNTERS) -> int:
    """Return how often the kernel has killed a process because memory ran out."""
    texts = [path.read_text() for path in counters if path.is_file()]
    return max((int(count) for text in texts for count in _COUNT.findall(text)), default=0)


@dataclass(kw_only=True, slots=True)
class Limit:
    """Memory that a capture may take, measured by the available memory of the machine.

    The sum over processes would be wrong: they share pages, and some memory belongs to none of
    them (shared, pinned, the kernel's).
    """

    limit_mb: int = 0
    """Memory that all ranks together may take, in MB (10^6 bytes); 0 is no limit."""

    at_start: int
    """Bytes that were available when the capture began."""

    kills_before: int = field(default_factory=kernel_kills)
    """`kernel_kills` when the capture began."""

    least: int = field(init=False)
    """Fewest bytes that were available so far."""

    def __post_init__(self) -> None:
        self.least = self.at_start

    def exceeded(self, now: int) -> str:
        """Return why the capture must end, with `now` bytes available, or "" if it need not."""
        self.least = min(self.least, now)
        taken_mb = (self.at_start - now) // _MB
        if self.limit_mb and taken_mb > self.limit_mb:
            return f"the capture took {taken_mb} MB of memory, and memory_limit_mb={self.limit_mb}"
        if now < left_over():
            return (
                f"the machine's memory ran out: {self.at_start // _MB} MB were available at first "
                f"and {now // _MB} MB are left"
            )
        return ""

    def shortage(self) -> str:
        """Return what says that memory ran out during the capture; "" if nothing does."""
        if kernel_kills() > self.kills_before:
            return "the kernel killed a process because memory ran out"
        if self.least < psutil.virtual_memory().total // _SHORT_PART:
            return f"only {self.least // _MB} MB of the machine's memory were left"
        return ""


def available() -> int:
    """Return the bytes that processes can still take without swapping."""
    return int(psutil.virtual_memory().available)


def left_over() -> int:
    """Return the bytes that a capture must leave available."""
    return max(_LEFT_BYTES, psutil.virtual_memory().total // _LEFT_PART)
