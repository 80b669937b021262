"""memory_snapshot: every allocation of a window of steps, as PyTorch's own memory snapshot."""

import contextlib
import mmap
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from profkit.capture._profiler_recording import is_for_all_threads
from profkit.capture._single_recording import single_recording
from profkit.capture.base import Rank, Recorder, Session
from profkit.capture.memory_snapshot import cpu_allocation_history
from profkit.core.bounds import NonNegativeInt, PositiveInt
from profkit.core.formatting import counted

_SUFFIX = ".memory.pickle"
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|Cannot allocate memory")
_BALLAST_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Record allocations, frees and segments; one pickle for each rank.

    On CPU, where PyTorch keeps no such history, its profiler sees the allocations, and the pickle
    has the same layout.
    """

    outputs: ClassVar = (f"*{_SUFFIX}",)
    is_repeated: ClassVar = False
    explains_out_of_memory: ClassVar = True

    start_up: bool = False
    """Record from the beginning, with the model, instead of from `first_step`; slow on CPU."""

    first_step: NonNegativeInt = 0
    """Step at whose beginning the window begins, without `start_up`."""

    steps: PositiveInt = 4
    """Steps of the window, counted from `first_step`; on CUDA, memory that runs out later has its
    history from there on, on CPU that of the window and what is live besides."""

    stacks: Literal["python", "all"] = "python"
    """Frames of Python only, or those of C++ as well, which takes more time and memory."""

    context: Literal["all", "alloc", "state"] = "all"
    """Which entries have stacks: all, those that allocate, or only what is live at the end."""

    max_entries: PositiveInt = 1_000_000
    """Entries that are kept, the last ones; the report says when there were more. CUDA only."""

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        wanted = self.first_step + self.steps
        if wanted <= steps:
            return ""
        return (
            f"the window ends after step {wanted - 1} (first_step={self.first_step}, "
            f"steps={self.steps}), and the workload runs {counted(steps, 'step')}"
        )

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        path = out / f"{rank.label}{_SUFFIX}"
        window = _Window(settings=self, history=_history(self, path))
        try:
            with window.history.watched():
                if self.start_up:
                    window.history.start()
                yield window
        finally:
            window.close()


class _History(Protocol):
    """The recorder of one kind of device."""

    def start(self) -> None:
        """Begin to record."""

    def save(self) -> None:
        """Write the pickle at the end of the window; later calls do nothing."""

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which running out of memory leaves the pickle."""


def _history(settings: Capture, path: Path) -> _History:
    import torch

    return _Cuda(settings, path) if torch.cuda.is_available() else _Cpu(path)


class _Window:
    """Opens and closes the history at the borders of steps."""

    def __init__(self, settings: Capture, history: _History) -> None:
        self.settings = settings
        self.history = history
        self.ended = 0

    def begin(self) -> None:
        """See `Recorder.begin`."""
        self._enter()

    def step(self) -> None:
        """See `Recorder.step`."""
        self.ended += 1
        if self.ended == self.settings.first_step + self.settings.steps:
            self.history.save()
        else:
            self._enter()

    def _enter(self) -> None:
        if not self.settings.start_up and self.ended == self.settings.first_step:
            self.history.start()

    def close(self) -> None:
        """Write the history if the workload ended within the window."""
        self.history.save()


class _Cuda:
    """The history that CUDA's caching allocator keeps itself.

    It continues after the window, bounded by its ring buffer, so that a later out-of-memory error
    still has its causes in the pickle.
    """

    def __init__(self, settings: Capture, path: Path) -> None:
        self.settings = settings
        self.path = path
        self.recording = False
        self.saved = False

    def start(self) -> None:
        """See `_History.start`."""
        import torch
        from torch.cuda import memory

        settings = self.settings
        # This creates the allocators, which record, but no CUDA context.
        torch.cuda.init()  # type: ignore[no-untyped-call]
        memory._record_memory_history(  # noqa: SLF001 - the documented way, underscore and all
            enabled="all",
            context=settings.context,
            stacks=settings.stacks,
            max_entries=settings.max_entries,
        )
        self.recording, self.saved = True, False

    def save(self) -> None:
        """See `_History.save`."""
        if self.recording and not self.saved:
            self._write()

    def _write(self) -> None:
        from torch.cuda import memory

        taken = memory._snapshot()  # noqa: SLF001
        _write(self.path, {**taken, "profkit_max_entries": self.settings.max_entries})
        self.saved = True

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See `_History.watched`."""
        import torch
        from torch.cuda import memory

        # At the moment of the error, all blocks that fill the memory are still there.
        attach = torch._C._cuda_attach_out_of_memory_observer  # type: ignore[attr-defined]  # noqa: SLF001
        attach(self._out_of_memory)
        try:
            yield
        finally:
            self.save()
            if self.recording:
                memory._record_memory_history(enabled=None)  # noqa: SLF001
            self.recording = False

    def _out_of_memory(self, device: int, wanted: int, allowed: int, free: int) -> None:
        del device, wanted, allowed, free
        self._write()


class _Cpu:
    """The history of CPU memory, from PyTorch's profiler."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.profiler = cpu_allocation_history.profiler()
        self.recording = False
        self.window: dict[str, Any] = {}
        # Freed when memory runs out, for what has to be written then.
        self.ballast = mmap.mmap(-1, _BALLAST_BYTES)

    def start(self) -> None:
        """See `_History.start`."""
        if is_for_all_threads():
            from torch._C._profiler import _ExperimentalConfig

            self.profiler.experimental_config = _ExperimentalConfig(profile_all_threads=True)
        self.profiler.start()
        self.recording = True

    def save(self, failed: str = "") -> None:
        """See `_History.save`."""
        if not self.recording:
            return
        self.recording = False
        self.profiler.stop()
        self.window = cpu_allocation_history.snapshot(self.profiler, failed)
        _write(self.path, self.window)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See `_History.watched`."""
        try:
            with single_recording(self.profiler, "memory_snapshot"):
                yield
        except (RuntimeError, MemoryError) as error:
            text = "out of memory" if isinstance(error, MemoryError) else str(error)
            if _OUT_OF_MEMORY.search(text):
                self._failed(text)
            raise

    def _failed(self, reason: str) -> None:
        self.ballast.close()
        if self.recording:
            self.save(reason)
        elif self.window:
            _write(self.path, cpu_allocation_history.ran_out(self.window))
        else:
            _write(self.path, cpu_allocation_history.snapshot(None, reason))


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write the pickle atomically."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        pickle.dump(content, file, protocol=4)
    part.replace(path)
