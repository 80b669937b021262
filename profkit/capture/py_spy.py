"""py-spy: samples Python (and native) call stacks from outside the process."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import PositiveInt

from profkit.capture.base import Rank, Trouble, Wrapper
from profkit.capture.harness import permissions


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Record one sampled profile of each rank with ``py-spy record``."""

    binary: ClassVar = "py-spy"
    installing: ClassVar = "pip install py-spy"
    outputs: ClassVar = ("*.speedscope.json",)

    rate: PositiveInt = 100
    """Samples per second; the process stands still for each one."""

    native: bool = False
    """Show the C and C++ frames below Python's; each sample then costs several times more."""

    subprocesses: bool = False
    """Sample the processes that a rank starts as well, such as the workers of a DataLoader."""

    nonblocking: bool = False
    """Do not stop the process for a sample: cheaper, but a stack read while it changes is wrong."""

    gil: bool = False
    """Count only threads that hold the GIL."""

    idle: bool = False
    """Count threads that wait as well."""

    threads: bool = False
    """Tell threads apart in the output."""

    function: bool = False
    """Sum samples by function instead of by line."""

    full_filenames: bool = False
    """Show whole paths of source files."""

    extra: tuple[str, ...] = ()
    """Flags passed through unread, for what the settings above leave out."""

    @classmethod
    def troubles(cls) -> Iterator[Trouble]:
        """See `Tool.troubles`."""
        yield from super(Capture, cls).troubles()
        yield from permissions.tracing()
        if sys.platform == "darwin" and os.geteuid() != 0:
            what = "py-spy needs root on macOS"
            yield Trouble(kind="forbidden", what=what, advice="run profkit with sudo")

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        output = out / f"{rank.label}.speedscope.json"
        flags = ["--format=speedscope", f"--output={output}", f"--rate={self.rate}"]
        switches = ("native", "subprocesses", "nonblocking", "gil", "idle", "threads", "function")
        chosen = [name for name in (*switches, "full_filenames") if getattr(self, name)]
        flags += [f"--{name.replace('_', '-')}" for name in chosen]
        return [self.binary, "record", *flags, *self.extra, "--", *workload]
