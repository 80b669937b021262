"""Marks that a workload sets at its steps and phases, for every tool at once.

They cost one attribute look-up when nothing records. The capture harness is the only listener.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Protocol

Marker = Callable[[str], AbstractContextManager[object]]
"""Opens a named range that some tool sees, such as ``torch.profiler.record_function``."""

_SILENT: AbstractContextManager[object] = nullcontext()


class Listener(Protocol):
    """Who wants to know about steps."""

    def begin(self) -> None:
        """Begin the first step: everything before it was set-up."""

    def step(self, samples: int) -> None:
        """End the current step, which processed `samples` samples (-1: unknown)."""


class _Marks:
    """The one set of marks of this process."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.markers: tuple[Marker, ...] = ()
        self.open_step: ExitStack | None = None
        self.index = 0

    def ranges(self, name: str) -> ExitStack:
        """Open one range called `name` with every marker."""
        stack = ExitStack()
        for marker in self.markers:
            stack.enter_context(marker(name))
        return stack

    def begin(self) -> None:
        """Begin step `index`."""
        for listener in self.listeners:
            listener.begin()
        self.open_step = self.ranges(f"step#{self.index}")

    def end(self, samples: int, *, last: bool) -> None:
        """End the current step and, unless it was the `last`, begin the next."""
        if self.open_step is not None:
            self.open_step.close()
        self.index += 1
        for listener in self.listeners:
            listener.step(samples)
        self.open_step = None if last else self.ranges(f"step#{self.index}")


_marks = _Marks()


def listen(*listeners: Listener, markers: tuple[Marker, ...] = ()) -> None:
    """Send steps to `listeners`, and open a range of each of `markers` around steps and phases."""
    _marks.listeners = listeners
    _marks.markers = markers


def phase(name: str) -> AbstractContextManager[object]:
    """Mark what happens inside as phase `name` of the step: data, forward, backward, optimizer."""
    return _marks.ranges(name) if _marks.markers else _SILENT


def steps(total: int, *, samples: int = -1) -> Iterator[int]:
    """Iterate over `total` steps of `samples` samples each, marking where each begins and ends."""
    for index in range(total):
        if index == 0:
            _marks.begin()
        yield index
        _marks.end(samples, last=index == total - 1)


def step(samples: int = -1) -> None:
    """Mark the end of a step of `samples` samples, in a loop of one's own.

    What comes before the first call counts as set-up: where a first step begins is not known.
    """
    if _marks.open_step is None:
        _marks.begin()
    else:
        _marks.end(samples, last=False)
