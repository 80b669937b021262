"""host_memory: every allocation on the host, Python's and native ones, by memray."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from profkit.capture.base import Rank, Wrapper

_SUFFIX = ".memray.bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Follow the allocations of each rank with ``memray run``, from imports on.

    Around the rank and not inside it: a tracker that begins in a call which returns before the
    others (memray 1.20) loses the frames of those.
    """

    binary: ClassVar = "memray"
    install_hint: ClassVar = "pip install memray"
    outputs: ClassVar = (f"*{_SUFFIX}",)
    is_repeated: ClassVar = False

    keep: Literal["peak", "all"] = "peak"
    """What is written: what was live at the peak, at the end; or every allocation at once, which
    survives a process that is killed, and takes gigabytes for long runs."""

    native: bool = False
    """Record C and C++ frames as well; each allocation then costs several times more."""

    python_allocators: bool = False
    """See each object of Python, and not only what its own allocator asks the system for."""

    extra: tuple[str, ...] = ()
    """Flags of ``memray run``, passed through unread."""

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        flags = ["--quiet", f"--output={out / rank.label}{_SUFFIX}"]
        flags += ["--aggregate"] if self.keep == "peak" else []
        flags += ["--native"] if self.native else []
        flags += ["--trace-python-allocators"] if self.python_allocators else []
        # memray itself starts Python, so the first word is left out.
        return [self.binary, "run", *flags, *self.extra, *workload[1:]]
