"""Marks that a workload sets at its steps and phases, for every tool at once.

They cost an attribute look-up or two when nothing records. The only listener is the capture
harness. For a script that marks nothing, `profkit.workloads.automatic` calls the ``observed_*``
functions; what the script says itself wins over them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Protocol

Marker = Callable[[str], AbstractContextManager[object]]
"""Opens a named range that some tool sees, such as ``torch.profiler.record_function``."""

Parts = Callable[[], Mapping[str, "Part"]]
"""Makes the parts of a step, by name, ready to be called again and again."""

_SILENT: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a step that can be run by itself, as often as somebody likes."""

    prepare: Callable[[], object]
    """What has to be done before each call, and is none of it."""

    run: Callable[[], object]
    """The part."""


class Listener(Protocol):
    """Who wants to know about steps."""

    def begin(self) -> None:
        """Begin the first step: everything before it was set-up."""

    def step(self, samples: int) -> None:
        """End the current step, which processed `samples` samples (-1: unknown)."""

    def note(self, text: str) -> None:
        """Keep what a reader of the capture should know."""


class _Marks:
    """The one set of marks of this process."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.markers: tuple[Marker, ...] = ()
        self.takers: tuple[Callable[[Parts], None], ...] = ()
        self.open_step: ExitStack | None = None
        self.index = 0
        self.begun = False
        # Whether the workload marks its steps itself, and which phases.
        self.says_steps = False
        self.said_phases: set[str] = set()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self.listeners or self.markers)

    def ranges(self, name: str) -> ExitStack:
        """Open one range called `name` with every marker."""
        stack = ExitStack()
        for marker in self.markers:
            stack.enter_context(marker(name))
        return stack

    def begin(self) -> None:
        """Begin step `index`; the time since the step before, if there is one, is part of it."""
        if not self.begun:
            self.begun = True
            for listener in self.listeners:
                listener.begin()
        if self.open_step is None:
            self.open_step = self.ranges(f"step#{self.index}")

    def end(self, samples: int, *, last: bool) -> None:
        """End the current step and, unless it was the `last`, begin the next."""
        if self.open_step is not None:
            self.open_step.close()
        self.index += 1
        for listener in self.listeners:
            listener.step(samples)
        self.open_step = None if last else self.ranges(f"step#{self.index}")

    def step(self, samples: int) -> None:
        """End the current step and begin the next; begin the first if there is none."""
        if self.open_step is None:
            self.begin()
        else:
            self.end(samples, last=False)


_marks = _Marks()


def listen(*listeners: Listener, markers: tuple[Marker, ...] = ()) -> None:
    """Send steps to `listeners`, and open a range of each of `markers` around steps and phases."""
    _marks.listeners = listeners
    _marks.markers = markers


def listen_too(listener: Listener) -> None:
    """Send steps to `listener` as well, after those that listen already."""
    _marks.listeners = (*_marks.listeners, listener)


def mark_too(marker: Marker) -> None:
    """Open a range of `marker` as well around each step and phase that is still to begin."""
    _marks.markers = (*_marks.markers, marker)


def take_parts(taker: Callable[[Parts], None]) -> None:
    """Have `taker` called with the parts of a step, should the workload offer them."""
    _marks.takers = (*_marks.takers, taker)


def offer_parts(parts: Parts) -> None:
    """Let who wants to benchmark the parts of a step do so now; returns when that is done.

    Every rank offers the same parts in the same order, as they may communicate.
    """
    for taker in _marks.takers:
        taker(parts)


def note(text: str) -> None:
    """Tell who reads the capture something about it, such as a cause of odd numbers."""
    for listener in _marks.listeners:
        listener.note(text)


def phase(name: str) -> AbstractContextManager[object]:
    """Mark what happens inside as phase `name` of the step: data, forward, backward, optimizer."""
    if not _marks.markers:
        return _SILENT
    _marks.said_phases.add(name)
    return _marks.ranges(name)


def steps(total: int, *, samples: int = -1) -> Iterator[int]:
    """Iterate over `total` steps of `samples` samples each, marking where each begins and ends."""
    if not _marks.heard:
        yield from range(total)
        return
    _marks.says_steps = True
    for index in range(total):
        if index == 0:
            _marks.begin()
        yield index
        _marks.end(samples, last=index == total - 1)


def step(samples: int = -1) -> None:
    """Mark the end of a step of `samples` samples, in a loop of one's own.

    What comes before the first call counts as set-up: where a first step begins is not known.
    """
    if not _marks.heard:
        return
    # A step that was seen to begin goes on to the next call, which says where it really ends.
    takes_over = not _marks.says_steps and _marks.open_step is not None
    _marks.says_steps = True
    if not takes_over:
        _marks.step(samples)


def observed_begin() -> None:
    """Begin the first step, as somebody has seen who looks on; later calls do nothing."""
    if _marks.heard and not _marks.begun and not _marks.says_steps:
        _marks.begin()


def observed_step(samples: int = -1) -> None:
    """End a step of which somebody has seen the end who looks on."""
    if _marks.heard and not _marks.says_steps:
        _marks.step(samples)


def observed_phase(name: str) -> AbstractContextManager[object]:
    """Mark a phase that somebody sees who looks on."""
    is_said = name in _marks.said_phases
    return _SILENT if is_said or not _marks.markers else _marks.ranges(name)


def is_heard() -> bool:
    """Say whether anybody listens."""
    return _marks.heard


def shows_phases() -> bool:
    """Say whether any tool sees phases, so that looking for them is worth anything."""
    return bool(_marks.markers)


def has_begun() -> bool:
    """Say whether the first step has begun."""
    return _marks.begun


def steps_seen() -> int:
    """Return how many steps have come to their end."""
    return _marks.index
