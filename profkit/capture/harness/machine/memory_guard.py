"""Memory limit: end a capture that takes all memory before the machine stalls."""

from dataclasses import dataclass

import psutil

# Left to the system and to the harness: without it every process would wait for pages.
_LEFT_BYTES = 256 << 20
_LEFT_PART = 100
_MB = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Memory that a capture may take, measured by the available memory of the machine.

    The sum over processes would be wrong: they share pages, and some memory belongs to none of
    them (shared, pinned, the kernel's).
    """

    limit_mb: int = 0
    """Memory that all ranks together may take, in MB (10^6 bytes); 0 is no limit."""

    at_start: int
    """Bytes that were available when the capture began."""

    def exceeded(self, now: int) -> str:
        """Return why the capture must end, with `now` bytes available, or "" if it need not."""
        taken_mb = (self.at_start - now) // _MB
        if self.limit_mb and taken_mb > self.limit_mb:
            return f"the capture took {taken_mb} MB of memory, and memory_limit_mb={self.limit_mb}"
        if now < left_over():
            return (
                f"the machine's memory ran out: {self.at_start // _MB} MB were available at first "
                f"and {now // _MB} MB are left"
            )
        return ""


def available() -> int:
    """Return the bytes that processes can still take without swapping."""
    return int(psutil.virtual_memory().available)


def left_over() -> int:
    """Return the bytes that a capture must leave available."""
    return max(_LEFT_BYTES, psutil.virtual_memory().total // _LEFT_PART)
