"""The contract of a capture tool: a settings dataclass with one hook."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, Self

from profkit.core.parallel_layout import Parallel, Ranks
from profkit.core.settings import Settings

_VERSION_TIMEOUT_S = 30


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
class Problem:
    """Something about this machine that a tool minds; ``profkit doctor`` shows it."""

    kind: Literal["missing", "forbidden", "incompatible"]
    """Whether something is not there, not permitted, or does not go with something else."""

    what: str
    """What is the matter."""

    advice: str
    """What to do about it."""

    stops: bool = True
    """Whether the tool cannot run at all, and does not only lose a part of what it records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool(Settings):
    """What all tools share. Inherit from `Wrapper` or `Session`, never from this."""

    outputs: ClassVar[tuple[str, ...]] = ()
    """Glob patterns of the files that a good capture leaves, each matching at least one."""

    markers: ClassVar[bool] = True
    """Whether steps and phases are marked with record_function and NVTX ranges."""

    repeated: ClassVar[bool] = True
    """Whether its captures are repeated as often as asked; what only counts is taken once."""

    holding_environment: ClassVar[tuple[str, ...]] = ()
    """Glob patterns of its files that hold the environment of the run, secrets included."""

    variables: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Environment that it needs, of all processes of the run."""

    exclusive_resources: ClassVar[tuple[str, ...]] = ()
    """What it holds that only one tool in a process can; the plan says which others want it."""

    ranks: Ranks = "all"
    """Ranks that are looked at, set by the top-level key ``ranks``; the others only keep time."""

    @classmethod
    def program(cls) -> str:
        """Return the name of what records: a distribution of Python, or an executable."""
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        """Return the version of what records; "" if it is not there or does not say."""
        raise NotImplementedError

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """Yield what keeps the tool from running on this machine, or from recording everything."""
        yield from ()

    @classmethod
    def unavailable(cls) -> str:
        """Return why the tool cannot run on this machine and what to do, or "" if it can."""
        return next((f"{each.what}; {each.advice}" for each in cls.problems() if each.stops), "")

    def records_rank(self, rank: int, world_size: int, parallel: Parallel) -> bool:
        """Say whether `rank` is one of those that are looked at."""
        if self.ranks == "first-of-each-stage":
            place = parallel.coordinates(rank, world_size)
            return (place["dp"], place["tp"]) == (0, 0)
        return self.ranks == "all" or rank in self.ranks

    def check(self, steps: int) -> str:
        """Return why these settings do not fit a workload of `steps` steps, or "" if they do."""
        del steps
        return ""

    @property
    def is_alone(self) -> bool:
        """Whether nothing may run beside its captures, whatever ``exclusive`` says."""
        return False

    def reads(self) -> tuple[str, ...]:
        """Return the analyses of other tools' captures whose results it chooses by, if any.

        The capture then waits for those that are part of the run.
        """
        return ()

    def with_results(self, results: Mapping[str, Path]) -> Self:
        """Return these settings with what `results`, by analysis, leave to be chosen by them.

        Raises `InputError` for a result that cannot be read.
        """
        del results
        return self

    def warnings(self) -> list[str]:
        """Return what a reader of the capture should know about these settings on this machine."""
        return []

    def finish(self, out: Path) -> list[str]:
        """Finish what the tool left unfinished in `out`, and return what a reader should know."""
        del out
        return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper(Tool):
    """A tool that starts each rank's process as its child: nsys, ncu, py-spy."""

    binary: ClassVar[str]
    """The executable, looked for on ``PATH`` and beside the Python that runs."""

    installing: ClassVar[str] = "install it, or add its folder to PATH"
    """How to get the executable."""

    may_fail_to_start: ClassVar[bool] = False
    """Whether it ends now and then before its program begins, and is then to be started again."""

    @classmethod
    def program(cls) -> str:
        """See `Tool.program`."""
        return cls.binary

    @classmethod
    def version(cls) -> str:
        """See `Tool.version`."""
        return stated_version(cls.binary)

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        if not executable(cls.binary):
            what = f"{cls.binary} is not installed"
            yield Problem(kind="missing", what=what, advice=cls.installing)

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """Return the command line that runs `workload` and leaves its files in `out`.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError

    @property
    def is_around_host(self) -> bool:
        """Whether one process of the tool holds all ranks of a host, and leaves one file there.

        `command` is then given the launcher's command line, and the host's first rank.
        """
        return False

    @property
    def is_outlived(self) -> bool:
        """Whether the tool may end before the program, which is then waited for."""
        return False

    @contextmanager
    def within(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """Do inside the workload what the tool outside wants done; nothing by default."""
        del out, rank
        yield Bystander()


@dataclass(frozen=True, kw_only=True, slots=True)
class Session(Tool):
    """A tool that records from inside the workload: torch.profiler, memory history."""

    distribution: ClassVar[str] = "torch"
    """The distribution of Python that records."""

    @classmethod
    def program(cls) -> str:
        """See `Tool.program`."""
        return cls.distribution

    @classmethod
    def version(cls) -> str:
        """See `Tool.version`."""
        return installed_version(cls.distribution)

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        if not installed_version(cls.distribution):
            what = f"{cls.distribution} is not installed"
            yield Problem(kind="missing", what=what, advice=f"pip install {cls.distribution}")

    def record(self, out: Path, rank: Rank) -> AbstractContextManager[Recorder]:
        """Record while the context is open and leave files in `out` when it closes.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError


def executable(binary: str) -> str:
    """Return the path of `binary` beside the Python that runs or on ``PATH``, or ""."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(binary, path=os.pathsep.join(places)) or ""


def stated_version(binary: str) -> str:
    """Return the version that ``binary --version`` states; "" if it is not there or does not."""
    path = executable(binary)
    if not path:
        return ""
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""


def installed_version(distribution: str) -> str:
    """Return the version of a distribution of Python, or "" if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
