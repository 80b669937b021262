"""py-spy: samples Python (and native) call stacks from outside the process."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from profkit.capture.base import Problem, Rank, Wrapper
from profkit.capture.harness.machine import permissions


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Look at each rank with ``py-spy record``, or now and then with ``py-spy dump``."""

    binary: ClassVar = "py-spy"
    install_hint: ClassVar = "pip install py-spy"
    outputs: ClassVar = ("*.speedscope.json",)

    mode: Literal["record", "dump"] = "record"
    """Sample all the time, or dump all threads every `dump_period_s`, which costs next to nothing
    and shows where long runs wait."""

    rate: PositiveInt = 100
    """Samples per second of a recording; the process stands still for each one."""

    dump_period_s: PositiveFloat = 5.0
    """Seconds from dump to dump; each stops the process for some milliseconds."""

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
    """Flags for ``py-spy record`` or ``dump``, passed through unread."""

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        yield from super(Capture, cls).problems()
        yield from permissions.tracing()
        if sys.platform == "darwin" and os.geteuid() != 0:
            what = "py-spy needs root on macOS"
            yield Problem(kind="forbidden", what=what, advice="run profkit with sudo")

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        if self.mode == "dump":
            return self._dumping(workload, out, rank)
        output = out / f"{rank.label}.speedscope.json"
        flags = ["--format=speedscope", f"--output={output}", f"--rate={self.rate}"]
        switches = ("native", "subprocesses", "nonblocking", "gil", "idle", "threads", "function")
        chosen = [name for name in (*switches, "full_filenames") if getattr(self, name)]
        flags += [f"--{name.replace('_', '-')}" for name in chosen]
        return [self.binary, "record", *flags, *self.extra, "--", *workload]

    def _dumping(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        switches = ("native", "subprocesses", "nonblocking")
        flags = [f"--{name}" for name in switches if getattr(self, name)]
        only = [*([] if self.idle else ["active"]), *(["owns_gil"] if self.gil else [])]
        own = [f"--out={out / rank.label}", f"--period-s={self.dump_period_s:g}"]
        own += [f"--flag={each}" for each in (*flags, *self.extra)]
        own += [f"--only={each}" for each in only]
        own += ["--filename=filename"] if self.full_filenames else []
        return [sys.executable, "-m", "profkit.capture._py_spy_dumps", *own, "--", *workload]
