"""Marks that a workload sets at its steps and phases, for every tool at once.

Without a listener, which only the capture harness adds, a mark costs an attribute look-up or two.
For a script without marks, `profkit.workloads.automatic` calls the ``observed_*`` functions; marks
of the script itself override these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Protocol

Marker = Callable[[str], AbstractContextManager[object]]
"""Opens a named range that some tool sees, such as ``torch.profiler.record_function``."""

Parts = Callable[[], Mapping[str, "Part"]]
"""Returns the parts of a step, by name, each ready for any number of calls."""

Inputs = Callable[[object, Iterable[object]], None]
"""Takes the arguments of a call of the model."""

STEP = "step#"
"""How the name of the range of a step begins, before its number."""

_SILENT: AbstractContextManager[object] = nullcontext()


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a step that can be run by itself, any number of times."""

    prepare: Callable[[], object]
    """Called before each run, and not measured with it."""

    run: Callable[[], object]
    """Runs the part."""


class Listener(Protocol):
    """Callbacks at steps."""

    def begin(self) -> None:
        """Begin the first step: everything before it was set-up."""

    def step(self, samples: int) -> None:
        """End the current step, which processed `samples` samples (-1: unknown)."""

    def resume(self) -> None:
        """Begin the current step again: what happened since its begin belongs to no step."""

    def join(self, first: int, count: int) -> None:
        """Take `count` steps that have ended, from number `first` on, for a single one.

        Later steps keep their numbers.
        """

    def note(self, text: str) -> None:
        """Keep a note for readers of the capture."""


class _Marks:
    """State of the marks of this process."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.markers: tuple[Marker, ...] = ()
        self.takers: tuple[Callable[[Parts], None], ...] = ()
        self.input_takers: tuple[Inputs, ...] = ()
        self.open_step: AbstractContextManager[object] | None = None
        self.index = 0
        self.begun = False
        self.expected = 0
        # Marks of the workload itself, which override observed ones.
        self.has_own_steps = False
        self.own_phases: set[str] = set()
        self.are_on_threads = False

    @property
    def are_used(self) -> bool:
        """Whether there is a listener or a marker."""
        return bool(self.listeners or self.markers)

    def ranges(self, name: str) -> AbstractContextManager[object]:
        """Return what opens one range called `name` with every marker."""
        if not self.markers:
            return _SILENT
        marker, *others = self.markers
        if not others:  # as of most tools: phases cost them half as much without a stack
            return marker(name)
        stack = ExitStack()
        for marker in self.markers:
            stack.enter_context(marker(name))
        return stack

    def open(self) -> None:
        """Open the ranges of step `index`."""
        self.open_step = self.ranges(f"{STEP}{self.index}")
        self.open_step.__enter__()

    def close(self) -> None:
        """Close the ranges of the step that is open, if there is one."""
        if self.open_step is not None:
            self.open_step.__exit__(None, None, None)
            self.open_step = None

    def begin(self) -> None:
        """Begin step `index`; the time since the step before, if there is one, is part of it."""
        if not self.begun:
            self.begun = True
            for listener in self.listeners:
                listener.begin()
        if self.open_step is None:
            self.open()

    def end(self, samples: int, *, last: bool) -> None:
        """End the current step and, unless it was the `last`, begin the next."""
        self.close()
        self.index += 1
        for listener in self.listeners:
            listener.step(samples)
        if not last:
            self.open()

    def resume(self) -> None:
        """Begin the current step again."""
        self.close()
        for listener in self.listeners:
            listener.resume()
        self.open()

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


def begin_anew(*listeners: Listener, markers: tuple[Marker, ...] = ()) -> None:
    """Forget the steps so far, for a process that was forked, and `listen`."""
    vars(_marks).update(vars(_Marks()))
    listen(*listeners, markers=markers)


def listen_too(listener: Listener) -> None:
    """Send steps to `listener` as well, after those that listen already."""
    _marks.listeners = (*_marks.listeners, listener)


def mark_too(marker: Marker) -> None:
    """Open a range of `marker` as well around each step and phase that is still to begin."""
    _marks.markers = (*_marks.markers, marker)


def take_parts(taker: Callable[[Parts], None]) -> None:
    """Have `taker` called with the parts of a step, if the workload offers them."""
    _marks.takers = (*_marks.takers, taker)


def offer_parts(parts: Parts) -> None:
    """Pass the parts of a step to every taker, which runs them before this returns.

    Every rank must offer the same parts in the same order, as they may communicate.
    """
    for taker in _marks.takers:
        taker(parts)


def take_inputs(taker: Inputs) -> None:
    """Have `taker` called with each model and what it is given, as far as hooks see it."""
    _marks.input_takers = (*_marks.input_takers, taker)


def note(text: str) -> None:
    """Leave a note for readers of the capture, such as a cause of odd numbers."""
    for listener in _marks.listeners:
        listener.note(text)


def phase(name: str) -> AbstractContextManager[object]:
    """Mark what happens inside as phase `name` of the step: data, forward, backward, optimizer."""
    if not _marks.markers:
        return _SILENT
    _marks.own_phases.add(name)
    return _marks.ranges(name)


def steps(total: int, *, samples: int = -1) -> Iterator[int]:
    """Iterate over `total` steps of `samples` samples each, marking where each begins and ends."""
    if not _marks.are_used:
        yield from range(total)
        return
    _marks.has_own_steps = True
    _marks.expected = _marks.index + total
    for index in range(total):
        if index == 0:
            _marks.begin()
        yield index
        _marks.end(samples, last=index == total - 1)


def step(samples: int = -1) -> None:
    """Mark the end of a step of `samples` samples, in a loop of your own.

    The time before the first call counts as set-up: where a first step begins is not known.
    """
    if not _marks.are_used:
        return
    # A step whose begin was observed goes on to the next call, which marks its real end.
    takes_over = not _marks.has_own_steps and _marks.open_step is not None
    _marks.has_own_steps = True
    if not takes_over:
        _marks.step(samples)


def observed_begin() -> None:
    """Begin the first step, found by hooks; later calls do nothing."""
    if _marks.are_used and not _marks.begun and not _marks.has_own_steps:
        _marks.begin()


def observed_step(samples: int = -1) -> None:
    """End a step, found by hooks."""
    if _marks.are_used and not _marks.has_own_steps:
        _marks.step(samples)


def observed_resume() -> None:
    """Leave what happened since the end of the last step, found by hooks, out of the steps."""
    if _marks.open_step is not None and not _marks.has_own_steps:
        _marks.resume()


def observed_join(count: int, before: int) -> None:
    """Take the `count` steps before the last `before` ones, found by hooks, for a single one."""
    if not _marks.has_own_steps:
        for listener in _marks.listeners:
            listener.join(_marks.index - before - count, count)


def observed_threads() -> None:
    """Expect steps on several threads, as those of a server."""
    _marks.are_on_threads = True


def observed_inputs(called: object, given: Callable[[], Iterable[object]]) -> None:
    """Pass on what a model or a loss is `given`, found by hooks, where something takes it."""
    for taker in _marks.input_takers:
        taker(called, given())


def observed_phase(name: str) -> AbstractContextManager[object]:
    """Mark a phase, found by hooks."""
    is_marked = name in _marks.own_phases
    return _SILENT if is_marked else _marks.ranges(name)


def are_used() -> bool:
    """Say whether anything uses the marks of this process."""
    return _marks.are_used


def shows_phases() -> bool:
    """Say whether any tool records phases, so that they are worth finding."""
    return bool(_marks.markers)


def has_begun() -> bool:
    """Say whether the first step has begun."""
    return _marks.begun


def are_on_threads() -> bool:
    """Say whether steps are known to be on several threads."""
    return _marks.are_on_threads


def has_own_steps() -> bool:
    """Say whether the workload itself marks its steps."""
    return _marks.has_own_steps


def expected_steps() -> int:
    """Return how many steps there will be at least; 0 if nothing says so."""
    return _marks.expected


def steps_seen() -> int:
    """Return how many steps have ended."""
    return _marks.index
