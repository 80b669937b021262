"""The contract of a capture tool: a settings dataclass with one hook."""

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from profkit.parallel import Parallel, Ranks
from profkit.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """Where a process stands in the run, and the name that its files begin with."""

    rank: int = 0
    """Global rank."""

    world_size: int = 1
    """Number of processes of the run."""

    local_rank: int = 0
    """Rank within this host, which is also the index of its accelerator."""

    dp: int = 0
    """Coordinate among data-parallel replicas."""

    tp: int = 0
    """Coordinate among tensor-parallel shards."""

    pp: int = 0
    """Coordinate among pipeline stages."""

    @property
    def label(self) -> str:
        """Name of this rank in every path, for example ``rank3_dp1_tp1_pp0``."""
        return f"rank{self.rank}_dp{self.dp}_tp{self.tp}_pp{self.pp}"


class Recorder(Protocol):
    """What a session does at the borders of steps; the harness calls it."""

    def begin(self) -> None:
        """Begin the first step: everything before it was set-up."""

    def step(self) -> None:
        """End the current step and begin the next."""


class Bystander:
    """The recorder of tools that do nothing at the borders of steps."""

    def begin(self) -> None:
        """See `Recorder.begin`."""

    def step(self) -> None:
        """See `Recorder.step`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool(Settings):
    """What all tools share. Inherit from `Wrapper` or `Session`, never from this."""

    outputs: ClassVar[tuple[str, ...]] = ()
    """Glob patterns of the files that a good capture leaves, each matching at least one."""

    markers: ClassVar[bool] = True
    """Whether steps and phases are marked with record_function and NVTX ranges."""

    ranks: Ranks = "all"
    """Ranks that are looked at, set by the top-level key ``ranks``; the others only keep time."""

    @classmethod
    def unavailable(cls) -> str:
        """Return why the tool cannot run on this machine, or "" if it can."""
        return ""

    def looks_at(self, rank: int, world_size: int, parallel: Parallel) -> bool:
        """Say whether `rank` is one of those that are looked at."""
        if self.ranks == "first-of-each-stage":
            place = parallel.coordinates(rank, world_size)
            return (place["dp"], place["tp"]) == (0, 0)
        return self.ranks == "all" or rank in self.ranks

    def check(self, steps: int) -> str:
        """Return why these settings do not fit a workload of `steps` steps, or "" if they do."""
        del steps
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper(Tool):
    """A tool that starts each rank's process as its child: nsys, ncu, py-spy."""

    binary: ClassVar[str]
    """The executable, looked for on ``PATH`` and beside the Python that runs."""

    @classmethod
    def unavailable(cls) -> str:
        """Return why the tool cannot run on this machine, or "" if it can."""
        return "" if executable(cls.binary) else f"{cls.binary} is not installed"

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """Return the command line that runs `workload` and leaves its files in `out`.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Session(Tool):
    """A tool that records from inside the workload: torch.profiler, memory history."""

    def record(self, out: Path, rank: Rank) -> AbstractContextManager[Recorder]:
        """Record while the context is open and leave files in `out` when it closes.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError


def executable(binary: str) -> str:
    """Return the path of `binary` beside the Python that runs or on ``PATH``, or ""."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(binary, path=os.pathsep.join(places)) or ""
