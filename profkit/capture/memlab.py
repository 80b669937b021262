"""memlab: peaks of CUDA memory line by line in functions that are named, by pytorch_memlab."""

import importlib
import inspect
import json
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from profkit.capture.base import Problem, Rank, Recorder, Session
from profkit.core.bounds import NonNegativeInt, PositiveInt
from profkit.core.errors import ProfkitError
from profkit.core.formatting import counted

_SUFFIX = ".memlab.json"
_COLUMNS = {
    "peak_bytes": "active_bytes.all.peak",
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "allocated_bytes": "allocated_bytes.all.allocated",
    "freed_bytes": "allocated_bytes.all.freed",
}
_NAMING = "tools.memlab.functions=[my_package.model:Block.forward,__main__:train_step]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Read the allocator's counters after every line of the functions; one JSON for each rank.

    Python traces every line of the process meanwhile, so times mean nothing. Functions that
    autograd calls on its own threads are not seen.
    """

    distribution: ClassVar = "pytorch_memlab"
    outputs: ClassVar = (f"*{_SUFFIX}",)
    is_repeated: ClassVar = False

    functions: tuple[str, ...] = ()
    """Functions to look at, as ``module:function`` or ``module:Class.method``; those of the script
    itself are in ``__main__``. They are looked up when the window begins."""

    first_step: NonNegativeInt = 1
    """Step at whose beginning the window begins."""

    steps: PositiveInt = 1
    """Steps of the window."""

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        missing = list(super(Capture, cls).problems())
        yield from missing
        if missing:
            return
        import torch

        if not torch.cuda.is_available():
            yield Problem(
                kind="incompatible",
                what="PyTorch sees no CUDA device, whose memory pytorch_memlab would count",
                advice="use memory_snapshot, which works on CPU as well",
            )

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        if not self.functions:
            return f"no function is named: {_NAMING}"
        if wrong := [name for name in self.functions if not all(name.partition(":"))]:
            return f"{wrong[0]!r} is not module:function: {_NAMING}"
        wanted = self.first_step + self.steps
        if wanted <= steps:
            return ""
        run = counted(steps, "step")
        return f"the window ends after step {wanted - 1}, and the workload runs {run}"

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        # The number of steps of a script is not known before it runs.
        if reason := self.check(self.first_step + self.steps):
            raise ProfkitError(f"memlab: {reason}")
        window = _Window(self)
        try:
            yield window
        finally:
            window.stop()
            lines = list(window.lines())
            record = {"lines": lines, "missing": window.missing, "device": window.device}
            (out / f"{rank.label}{_SUFFIX}").write_text(json.dumps(record, indent=1))


class _Window:
    """Switches the line profiler on and off at step boundaries."""

    def __init__(self, settings: Capture) -> None:
        self.settings = settings
        self.profiler: Any = None
        self.functions: dict[str, Callable[..., object]] = {}
        self.missing: list[str] = []
        self.device = ""
        self.ended = 0

    def begin(self) -> None:
        """See `Recorder.begin`."""
        self._enter()

    def step(self) -> None:
        """See `Recorder.step`."""
        self.ended += 1
        if self.ended == self.settings.first_step + self.settings.steps:
            self.stop()
        else:
            self._enter()

    def _enter(self) -> None:
        if self.ended == self.settings.first_step:
            self._start()

    def _start(self) -> None:
        import torch

        index = torch.cuda.current_device()
        self.device = f"cuda:{index}"
        for name in self.settings.functions:
            function = _named(name)
            if function is None:
                self.missing.append(name)
            elif self.functions.setdefault(function.__qualname__, function) is not function:
                raise ProfkitError(
                    f"memlab: two functions are called {function.__qualname__}, and pytorch_memlab"
                    " tells functions apart by that",
                    hint="look at them one after the other",
                )
        memlab = importlib.import_module("pytorch_memlab")
        self.profiler = memlab.LineProfiler(*self.functions.values(), target_gpu=index)
        self.profiler.enable()

    def stop(self) -> None:
        """Stop recording."""
        if self.profiler is not None and self.profiler.enabled:
            self.profiler.disable()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that ran, each with the largest of its numbers over all its runs."""
        if self.profiler is None:
            return
        shown = self.profiler.display(columns=tuple(_COLUMNS.values()))
        # The numbers behind its text, which are not public.
        rows = shown._line_records  # noqa: SLF001
        for (function, line), numbers in zip(rows.index, rows.to_numpy().tolist(), strict=True):
            file = inspect.getsourcefile(self.functions[function]) or ""
            yield {
                "function": function,
                "file": file,
                "line": int(line),
                "code": linecache.getline(file, line).strip(),
                **dict(zip(_COLUMNS, map(int, numbers), strict=True)),
            }


def _named(name: str) -> Callable[..., Any] | None:
    """Return the function `name`, as ``module:function``; None if there is none of Python's."""
    module, _, path = name.partition(":")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    found = inspect.unwrap(found)
    return found if inspect.isfunction(found) else None
