"""host_memory: every allocation on the host, Python's and native ones, by memray."""

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from profkit.capture.base import Rank, Wrapper

_SUFFIX = ".memray.bin"
_PYTHON = re.compile(r"python[\d.]*")


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

    def unfit_command(self, words: Sequence[str]) -> str:
        """See `Wrapper.unfit_command`."""
        if _is_this_python(words[0]) and (words[1:2] == ["-m"] or _is_script(words)):
            return ""
        return (
            "memray starts the Python that it looks at, the one of profkit: write the command as"
            " this python with a script, or with -m and a module, or set launcher=torchrun"
        )


def _is_this_python(word: str) -> bool:
    found = shutil.which(word)
    is_python = _PYTHON.fullmatch(Path(word).name) is not None
    return is_python and found is not None and Path(found).parent == Path(sys.executable).parent


def _is_script(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[1].endswith(".py")
