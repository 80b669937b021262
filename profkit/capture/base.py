"""Base classes of capture tools: a settings dataclass with one method to write."""

import functools
import importlib.metadata
import inspect
import operator
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, Self

from profkit.core.errors import PluginError
from profkit.core.parallel_layout import Parallel, Ranks
from profkit.core.settings import Settings

_VERSION_TIMEOUT_S = 20
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_SHOWN = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """Coordinates of a process in the run, and the label that its files begin with."""

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

    ep: int = -1
    """Coordinate among groups of experts; -1 if there are none, or it is not known."""

    @property
    def label(self) -> str:
        """Name of this rank in every path, for example ``rank3_dp1_tp1_pp0``."""
        return f"rank{self.rank}_dp{self.dp}_tp{self.tp}_pp{self.pp}"


class Recorder(Protocol):
    """Callbacks of a tool at step boundaries, called by the harness inside the workload."""

    def begin(self) -> None:
        """Begin the first step: everything before it was set-up."""

    def step(self) -> None:
        """End the current step and begin the next."""


class NullRecorder:
    """The recorder of tools that do nothing at step boundaries."""

    def begin(self) -> None:
        """See `Recorder.begin`."""

    def step(self) -> None:
        """See `Recorder.step`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A reason why a tool cannot run on this machine, or records less; for ``profkit doctor``."""

    kind: Literal["missing", "forbidden", "incompatible"]
    """Whether something is not installed, not permitted, or does not fit other software."""

    what: str
    """Description, without a full stop."""

    advice: str
    """Command or change that solves it."""

    stops: bool = True
    """Whether the tool cannot run at all; False if it records less."""

    setting: str = ""
    """The setting that it concerns, which is off by default; "" for all captures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool(Settings):
    """Members of all tools. Inherit from `Wrapper` or `Session`, never from this."""

    outputs: ClassVar[tuple[str, ...]] = ()
    """Glob patterns of the files that a good capture leaves, each matching at least one.

    They begin with ``*``: the label of each rank is put before them.
    """

    opens_step_ranges: ClassVar[bool] = True
    """Whether the harness opens record_function and NVTX ranges around steps and phases."""

    is_repeated: ClassVar[bool] = True
    """Whether its captures follow ``repeats``; False for tools that count instead of timing."""

    holds_steps: ClassVar[bool] = False
    """Whether what it records of a step stays in the program's memory until the step has ended."""

    is_of_one_thread: ClassVar[bool] = False
    """Whether the thread that begins its recording has to end it, and is all that it records."""

    explains_out_of_memory: ClassVar[bool] = False
    """Whether it records what filled the memory of a workload that runs out of it."""

    yields_tables: ClassVar[bool] = False
    """Whether analyses read the tables of another tool instead, where one makes the same."""

    files_with_environment: ClassVar[tuple[str, ...]] = ()
    """Glob patterns of its files that contain the environment variables, secrets included."""

    environment_variables: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Environment variables to set for all processes of the run."""

    exclusive_resources: ClassVar[tuple[str, ...]] = ()
    """Names of what only one tool of a process can use, such as CUPTI; the plan warns of two."""

    ranks: Ranks = "all"
    """Ranks that are looked at, set by the top-level key ``ranks``; the others only keep time."""

    @property
    def traced_steps(self) -> tuple[int, int]:
        """The first step that is traced and the one after the last; both 0 if all are alike."""
        return 0, 0

    def after(self, steps: int) -> Self:
        """Return this, told to trace none of the first `steps` if it is free to choose."""
        del steps
        return self

    @classmethod
    def profiler_name(cls) -> str:
        """Return the distribution of Python, or the executable, that records."""
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        """Return the version of the profiler; "" if it is not installed or not known."""
        raise NotImplementedError

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """Yield reasons why the tool cannot run on this machine, or records less."""
        yield from ()

    @classmethod
    def unavailable_reason(cls) -> str:
        """Return why the tool cannot run on this machine and how to solve it, or "" if it can."""
        reasons = (
            f"{problem.what}; {problem.advice}" for problem in cls.problems() if problem.stops
        )
        return next(reasons, "")

    @property
    def records_all_ranks(self) -> bool:
        """Whether no rank is left out, however many there are."""
        return self.ranks == "all"

    def records_rank(self, rank: int, world_size: int, parallel: Parallel) -> bool:
        """Say whether the tool records `rank`."""
        if self.records_all_ranks:
            return True
        if self.ranks == "first-of-each-stage":
            coordinates = parallel.coordinates(rank, world_size)
            return (coordinates["dp"], coordinates["tp"]) == (0, 0)
        # Representative ranks are numbers here, once they are chosen.
        return isinstance(self.ranks, tuple) and rank in self.ranks

    def check(self, steps: int) -> str:
        """Return why these settings do not fit a workload of `steps` steps, or "" if they do."""
        del steps
        return ""

    @property
    def needs_exclusive_machine(self) -> bool:
        """Whether nothing may run beside its captures, even with ``exclusive=false``."""
        return False

    def input_analyses(self) -> tuple[str, ...]:
        """Return the names of analyses whose results it needs, for `with_results`.

        The capture waits for those of them that are part of the run.
        """
        return ()

    def with_results(self, results: Mapping[str, Path]) -> Self:
        """Return these settings, completed from the files of `results`, by name of the analysis.

        Raises `InputError` for a result that cannot be read.
        """
        del results
        return self

    def losses(self) -> list[str]:
        """Return what cannot be recorded with these settings on this machine, for readers."""
        return [
            f"{problem.what}; {problem.advice}"
            for problem in self.problems()
            if not problem.stops and self._has(problem.setting)
        ]

    def _has(self, setting: str) -> bool:
        return not setting or bool(operator.attrgetter(setting)(self))

    def warnings(self) -> list[str]:
        """Return warnings about these settings on this machine, for readers of the capture."""
        return []

    def finish(self, out: Path) -> list[str]:
        """Complete the files in `out` after the run, and return notes for readers."""
        del out
        return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper(Tool):
    """A tool that starts each rank's process as its child: nsys, ncu, py-spy."""

    binary: ClassVar[str]
    """The executable, searched beside the running Python and on ``PATH``."""

    install_hint: ClassVar[str] = "install it, or add its folder to PATH"
    """How to install the executable."""

    may_fail_to_start: ClassVar[bool] = False
    """Whether it sometimes ends before its program begins, and must be started again."""

    @classmethod
    def profiler_name(cls) -> str:
        """See `Tool.profiler_name`."""
        return cls.binary

    @classmethod
    def version(cls) -> str:
        """See `Tool.version`."""
        return executable_version(cls.binary)

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        path = executable(cls.binary)
        if not path:
            what = f"{cls.binary} is not installed"
            yield Problem(kind="missing", what=what, advice=cls.install_hint)
        elif not executable_version(cls.binary):
            what = f"{path} does not work: --version: {_asked_version(path)[1]}"
            advice = "install it anew, or take its folder off PATH"
            yield Problem(kind="missing", what=what, advice=advice)

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """Return the command line that runs `workload` and leaves its files in `out`.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError

    def later_commands(self, out: Path, rank: Rank) -> list[list[str]]:
        """Return the command lines of the tool that are run while the program does."""
        del out, rank
        return []

    @property
    def wraps_launcher(self) -> bool:
        """Whether one process of the tool runs the launcher of a host, with all its ranks.

        `command` then gets the launcher's command line and the first rank of the host.
        """
        return False

    @property
    def may_exit_before_program(self) -> bool:
        """Whether the tool may end before the program; the harness then waits for the program."""
        return False

    def around_command(self) -> Self:
        """Return these settings for one process around a whole command of the user's."""
        return self

    def found_command(self, program: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """Return `command` around `program`, with the path of its executable where there is one."""
        binary, *arguments = self.command(program, out, rank)
        return [executable(binary) or binary, *arguments]

    def unfit_command(self, words: Sequence[str]) -> str:
        """Return why it cannot be put around the command `words`, or ""."""
        del words
        return ""

    def share_out(self, out: Path, first: Rank, processes: Mapping[int, Rank]) -> list[Rank]:
        """Give each rank its part of the files that `first` has of a whole command.

        `processes` are the ranks by the numbers of their processes. Return the ranks with files.
        """
        del out, processes
        return [first]

    @contextmanager
    def inside_workload(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """Act inside the workload for the tool around it; does nothing by default."""
        del out, rank
        yield NullRecorder()


@dataclass(frozen=True, kw_only=True, slots=True)
class Session(Tool):
    """A tool that records from inside the workload: torch.profiler, memory history."""

    distribution: ClassVar[str] = "torch"
    """The Python distribution that records."""

    @classmethod
    def profiler_name(cls) -> str:
        """See `Tool.profiler_name`."""
        return cls.distribution

    @classmethod
    def version(cls) -> str:
        """See `Tool.version`."""
        return distribution_version(cls.distribution)

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        if not distribution_version(cls.distribution):
            what = f"{cls.distribution} is not installed"
            yield Problem(kind="missing", what=what, advice=f"pip install {cls.distribution}")

    def record(self, out: Path, rank: Rank) -> AbstractContextManager[Recorder]:
        """Record while the context is open and leave files in `out` when it closes.

        Names of files begin with ``rank.label``.
        """
        raise NotImplementedError


def check_outputs(tool: type[Tool]) -> None:
    """Raise `PluginError` if `tool.outputs` can match no file."""
    patterns = (tool.outputs,) if isinstance(tool.outputs, str) else tool.outputs
    if patterns is tool.outputs and all(pattern.startswith("*") for pattern in patterns):
        return
    lines, first = inspect.getsourcelines(tool)
    own = (index for index, line in enumerate(lines) if line.lstrip().startswith("outputs"))
    right = tuple(re.sub(r"^[^.]*(?=\.)|^", "*", pattern, count=1) for pattern in patterns)
    raise PluginError(
        f"{inspect.getfile(tool)}:{first + next(own, 0)}: `outputs` is {tool.outputs!r}",
        hint=f"write {right}: the label of each rank is put before each pattern of the tuple",
    )


def executable(binary: str) -> str:
    """Return the path of `binary` beside the running Python or on ``PATH``, or ""."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(binary, path=os.pathsep.join(folders)) or ""


def executable_version(binary: str) -> str:
    """Return the version that ``binary --version`` prints; "" if there is none."""
    path = executable(binary)
    return _asked_version(path)[0] if path else ""


@functools.cache
def _asked_version(path: str) -> tuple[str, str]:
    """Return the version that the program at `path` prints, or why there is none."""
    # Late: tools are imported in programs of users, which may have no psutil.
    from profkit.process import bounded_command

    answer = bounded_command.ask([path, "--version"], timeout_s=_VERSION_TIMEOUT_S)
    if answer.failure:
        return "", answer.failure
    # Some print it to standard error, and some end with a status that says nothing.
    if found := _VERSION.search(answer.text + answer.errors.decode(errors="replace")):
        return found[0], ""
    said = answer.said[-_SHOWN:] or "nothing"
    return "", answer.reason or f"it prints no version, but: {said}"


def distribution_version(distribution: str) -> str:
    """Return the version of a Python distribution, or "" if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
