"""A training or inference script of yours, unchanged: its steps are found by looking on."""

import builtins
import functools
import importlib
import importlib.machinery
import json
import os
import re
import runpy
import shlex
import sys
import types
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from profkit import marks
from profkit.core.bounds import NonNegativeFloat, PositiveInt
from profkit.core.errors import ProfkitError
from profkit.core.settings import ADDED_LATER
from profkit.workloads.automatic.step_ends import StepKind
from profkit.workloads.automatic.step_limit import StepLimit
from profkit.workloads.base import EXTRA_ARGUMENTS, BaseWorkload
from profkit.workloads.runtime import command_words

_PYTHON = re.compile(r"python[\d.]*(\.exe)?")
# By libraries of threads, and by PyTorch's own logging.
_READ_WHEN_LOADED = re.compile(r"(OMP|MKL|OPENBLAS|KMP|GOMP)_\w+|TORCH_LOGS")
_STARTERS = ("torchrun", "accelerate", "deepspeed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    """Composed from ``conf/workload/script.yaml``."""

    reads_configuration: ClassVar = False

    command: str = ""
    """The script and its arguments as on a command line, without ``python``; or ``-m module``. With
    ``launcher=command``, a whole command as typed: ``torchrun --nproc-per-node 2 train.py``."""

    step: StepKind = "auto"
    """What a step is: of an optimizer, a forward pass, what ``profkit.step()`` marks; auto takes
    an optimizer's where there is one, else a forward pass, or a backward pass without a module."""

    samples: PositiveInt | None = None
    """Samples that a rank processes in a step, for the throughput; null if that is not known."""

    stop_after: PositiveInt | None = None
    """Steps after which the script is ended, on every rank; null lets it come to its own end."""

    stop_after_s: NonNegativeFloat = field(default=0.0, metadata=ADDED_LATER)
    """Seconds of steps before which a command (``launcher=command``) of one rank is not ended,
    without a tool and by torch.profiler: short steps are many in them. Of steps so long that half
    of them take ten times as much, these are enough."""

    @property
    def words(self) -> list[str]:
        """The command, word by word."""
        return shlex.split(self.command)

    def check(self, folder: Path) -> str:
        """See `BaseWorkload.check`."""
        try:
            words = self.words
        except ValueError as error:
            return f"command: {error}: {self.command}"
        if not words:
            return "command is empty: workload.command='train.py --epochs 1'"
        if words[0] == "-m":
            return _unfit_module(words, folder)
        return _unfit_script(words[0], folder)

    def check_command(self, folder: Path) -> str:
        """See `BaseWorkload.check_command`."""
        try:
            words = self.words
        except ValueError as error:
            return f"command: {error}: {self.command}"
        reason = command_words.missing_program(words, folder, os.environ)
        return f"command: {reason}" if reason else ""

    def program(self, folder: Path) -> Path | None:
        """See `BaseWorkload.program`."""
        path = folder / command_words.script(self.words)
        is_file = self.words[0] != "-m" and os.path.isfile(path)  # noqa: PTH113 - or a text
        return path if is_file else None

    def total_steps(self, steps: int) -> int:
        """See `BaseWorkload.total_steps`."""
        del steps
        return self.stop_after or -1

    def name_for_run(self, model: str) -> str:
        """See `BaseWorkload.name_for_run`."""
        script = command_words.script(self.words)
        # A module's name has dots of its own.
        name = script if "-m" in self.words else Path(script).stem
        word = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_.") or "script"
        return word if model == "none" else f"{word}-{model}"


def _unfit_script(name: str, folder: Path) -> str:
    path = folder / name
    if os.path.exists(path):  # noqa: PTH110 - it may be a text
        return "" if _is_python(path) else f"command: {path} is not a Python script"
    if _PYTHON.fullmatch(Path(name).name):
        return f"command: leave out {name!r}, the launcher starts Python; begin with the script"
    if name in _STARTERS:
        return f"command: set launcher={name}, and begin with the script"
    return f"command: {command_words.no_script(path)}"


def _unfit_module(words: Sequence[str], folder: Path) -> str:
    if len(words) == 1:
        return "command: -m wants the name of a module"
    top = words[1].partition(".")[0]
    found = importlib.machinery.PathFinder.find_spec(top, [str(folder), *sys.path])
    return "" if found else f"command: no module named {top!r}, neither installed nor in {folder}"


def _is_python(path: Path) -> bool:
    """Say whether Python can run `path`: a script, or a folder or archive with a main program."""
    if path.is_dir():
        return (path / "__main__.py").is_file()
    if path.suffix == ".py" or zipfile.is_zipfile(path):
        return True
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def run(settings: Workload) -> None:
    """Run the script as Python itself would, and return when it ends without an error."""
    # Before the script's own arguments, where launchers put theirs.
    start = 1 + (settings.words[0] == "-m")
    extra = json.loads(os.environ.get(EXTRA_ARGUMENTS, "[]"))
    words = [*settings.words[:start], *extra, *settings.words[start:]]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            _begin_path(Path.cwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            path = Path.cwd() / words[0]
            _begin_path(path.resolve().parent)
            if path.is_dir() or zipfile.is_zipfile(path):
                runpy.run_path(words[0], run_name="__main__")
            else:
                _run_file(os.path.join(Path.cwd(), words[0]))  # noqa: PTH118 - "./" stays
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise


def _run_file(path: str) -> None:
    """Run a script as ``__main__``, with what Python puts there; runpy would write sys.argv[0]."""
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    vars(module).update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=None,
        __file__=path,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
    )
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))  # noqa: S102 - the user's own script, as asked for
    finally:
        sys.modules["__main__"] = before


def _begin_path(folder: Path) -> None:
    """Import modules from the folder of the script first, in place of profkit's first entry."""
    if not sys.flags.safe_path:
        sys.path[0] = str(folder)


@contextmanager
def _children_ended() -> Iterator[None]:
    """End children that the script forks without clean-up."""
    rank = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != rank:
            os._exit(int(sys.exc_info()[0] not in (None, SystemExit)))


@contextmanager
def _note_on_spawn() -> Iterator[None]:
    """Leave a note when the script starts processes, which profkit does not see here."""
    module: Any = importlib.import_module("torch.multiprocessing.spawn")
    original = module.start_processes

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        marks.note(
            "The script starts processes itself with torch.multiprocessing.spawn, and profkit sees"
            " none of them: let launcher=command follow the whole command, or launcher=torchrun"
            " start the ranks."
        )
        return original(*args, **kwargs)

    module.start_processes = start_processes
    try:
        yield
    finally:
        module.start_processes = original


@contextmanager
def _note_on_late_variables() -> Iterator[None]:
    """Leave a note on variables that the script sets for PyTorch, which is loaded before it."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name, value in os.environ.items():
            if _READ_WHEN_LOADED.fullmatch(name) and before.get(name) != value:
                marks.note(
                    f"The script sets {name}={value}, which PyTorch reads when it is loaded: here"
                    f" that was before. Set launcher.env.{name}={value}, or let launcher=command"
                    " follow the whole command."
                )


def observed(settings: Workload) -> None:
    """Run the script and mark its steps; raises `ProfkitError` if it has none."""
    # Late: plans import this module, and torch takes seconds.
    from profkit.workloads.automatic.step_hooks import StepHooks

    if settings.stop_after:
        marks.listen_too(StepLimit(settings.stop_after))
    with (
        _children_ended(),
        _note_on_spawn(),
        _note_on_late_variables(),
        StepHooks(settings.step, settings.samples or -1),
    ):
        run(settings)
    if not marks.steps_seen():
        raise ProfkitError(
            f"the script ended without a step (workload.step={settings.step})",
            hint="call profkit.step() at the end of each step, or set workload.step=forward if it"
            " calls a module but no optimizer",
        )


def main(argv: Sequence[str]) -> None:
    """Run one rank of the script that ``--config`` describes."""
    from profkit.workloads.runtime.request import parsed

    settings = parsed(argv).settings(Workload)
    if reason := settings.check(Path.cwd()):
        raise ProfkitError(f"workload.{reason}")
    if marks.are_used():
        observed(settings)
    else:
        run(settings)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
