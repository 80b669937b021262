"""The steps that ``nsys`` records: open and close its window from inside the process."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from profkit import marks
from profkit.capture.base import executable
from profkit.capture.harness.ranks import nvtx_ranges
from profkit.core.errors import ProfkitError
from profkit.process import bounded_command

CAPTURE_RANGE = "capture"
"""NVTX range that opens the window."""

RANK_MARK = "rank#"
"""NVTX mark with the global rank: one report may hold several processes."""

LONG_S = 60.0
"""Longer recordings make reports that are slow to open and repeat themselves."""

_COMMAND_TIMEOUT_S = 300.0
# With these variables of the workload's environment, the command would trace itself.
_INJECTED = ("LD_PRELOAD", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")


class StepWindow:
    """Opens before step `first` and closes after `count` steps; 0 goes on to the last."""

    def __init__(
        self,
        first: int,
        count: int,
        open_window: Callable[[], AbstractContextManager[object]],
        rank: int,
    ) -> None:
        self.first = first
        self.until = first + count if count else -1
        self.open_window = open_window
        self.rank = rank
        self.index = 0
        self.since_s = 0.0
        self.open = ExitStack()

    def begin(self) -> None:
        """See `Recorder.begin`."""
        if self.first == 0:
            self._open()
        self._mark()

    def step(self) -> None:
        """See `Recorder.step`."""
        self.index += 1
        if self.index == self.until:
            self.close()
        elif self.index == self.first:
            self._open()
        self._mark()

    def _mark(self) -> None:
        # At each boundary: a window that another rank of the host opens contains at least one.
        nvtx_ranges.mark(f"{RANK_MARK}{self.rank}")

    def _open(self) -> None:
        self.open.enter_context(self.open_window())
        self.since_s = time.monotonic()

    def close(self) -> None:
        """Close the window if it is open."""
        seconds = time.monotonic() - self.since_s if self.since_s else 0.0
        self.since_s = 0.0
        self.open.close()
        if seconds > LONG_S:
            marks.note(
                f"nsys recorded {seconds:.0f} s: more than {LONG_S:g} s make reports that are slow"
                " to open; choose fewer with tools.nsys.first_step and tools.nsys.steps"
            )


def open_nvtx_range() -> AbstractContextManager[object]:
    """Open the NVTX range that ``--capture-range=nvtx`` waits for."""
    return nvtx_ranges.cross_thread_spans()(CAPTURE_RANGE)


@contextmanager
def open_cuda_profiler() -> Iterator[None]:
    """Call CUDA's profiler functions, which ``--capture-range=cudaProfilerApi`` waits for."""
    import torch

    if not torch.cuda.is_available():
        raise ProfkitError(
            "tools.nsys.capture_range=cudaProfilerApi needs CUDA, and this process has none",
            hint="set tools.nsys.capture_range=nvtx",
        )
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


@contextmanager
def open_session(binary: str, start: list[str], stop: list[str]) -> Iterator[None]:
    """Start and stop the collection of the session that ``nsys launch`` opened."""
    _run(binary, start)
    try:
        yield
    finally:
        _run(binary, stop)


def _run(binary: str, arguments: list[str]) -> None:
    """Run `binary`; raises `ProfkitError` with its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _INJECTED}
    command = [executable(binary) or binary, *arguments]
    answer = bounded_command.ask(
        command,
        timeout_s=_COMMAND_TIMEOUT_S,
        environment=environment,
        # It talks to a daemon, which it may have started.
        spares_children=True,
    )
    if answer.reason:
        raise ProfkitError(f"{Path(binary).name} {arguments[0]} failed: {answer.reason}")
