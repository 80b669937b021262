"""marks: steps, phases and collectives of every rank, light enough for thousands of ranks."""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from profkit import marks
from profkit.capture._collective_calls import Call, CollectiveCalls, Message
from profkit.capture.base import Rank, Recorder, Session
from profkit.capture.harness.ranks.bytes_bound import BytesBound
from profkit.capture.harness.ranks.held_lines import HeldLines
from profkit.core.bounds import NonNegativeInt, PositiveInt

_SUFFIX = ".marks.jsonl"
_STEP = "step#"
_text = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Note when each rank begins phases and comes to collectives; a line of JSON for each step.

    Whatever `ranks` says, all are recorded: this is what shows which rank the others wait for.
    """

    outputs: ClassVar = (f"*{_SUFFIX}",)
    opens_step_ranges: ClassVar = False
    distribution: ClassVar = "profkit"
    yields_tables: ClassVar = True

    bytes_per_step: PositiveInt = 10_000
    """Bytes that a step of a rank may take; the last collectives of a step with more, about 400,
    are left out."""

    first_steps: NonNegativeInt = 16
    """First steps whose collectives are recorded, each of them."""

    every: PositiveInt = 32
    """Later steps of which one has its collectives recorded: a call takes 30 to 60 us longer then.
    One of a kind that the program has not called before may be missed in ten such steps. Phases are
    recorded of all."""

    @property
    def records_all_ranks(self) -> bool:
        """Return True: a rank is late compared with all others."""
        return True

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        with closing(HeldLines(out / f"{rank.label}{_SUFFIX}")) as file:
            recorder = _Recorder(file, self, BytesBound(rank))
            try:
                yield recorder
            finally:
                recorder.collectives.watch(on=False)
            # After an error the device may no longer answer: the steps so far are there.
            recorder.drain(wait=True)
            recorder.bound.ended(recorder.made, recorder.written)


@dataclass(slots=True)
class _Step:
    """What happens in one step."""

    begin_ns: int
    phases: list[tuple[str, int, int]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


class _Phase:
    """Adds the time of its context to a step; by `contextmanager` it would take twice as long."""

    __slots__ = ("name", "start_ns", "step")

    def __init__(self, step: _Step, name: str) -> None:
        self.step = step
        self.name = name
        self.start_ns = 0

    def __enter__(self) -> None:
        self.start_ns = time.time_ns()

    def __exit__(self, *_: object) -> None:
        self.step.phases.append((self.name, self.start_ns, time.time_ns()))


class _Recorder:
    """Gathers a step and writes it once all its collectives are over."""

    def __init__(self, file: Any, settings: Capture, bound: BytesBound) -> None:
        self.file = file
        self.bound = bound
        self.made = self.written = self.bytes = 0
        self.is_full = False
        self.settings = settings
        self.index = -1
        self.collectives = CollectiveCalls(self.called)
        self.step_now: _Step | None = None
        self.ended: deque[_Step] = deque()
        self.drained_s = 0.0
        self.messages: dict[Message, int] = {}

    def begin(self) -> None:
        """See `Recorder.begin`."""
        marks.mark_too(self.phase)
        self.begin_step()

    def step(self) -> None:
        """See `Recorder.step`."""
        if self.step_now is not None:
            self.ended.append(self.step_now)
        if (now_s := time.monotonic()) - self.drained_s >= _HELD_S:
            self.drained_s = now_s
            self.drain(wait=False)
        self.begin_step()

    def begin_step(self) -> None:
        """Begin the next step, the collectives of which may be watched, on all ranks alike."""
        self.index += 1
        is_first = self.index < self.settings.first_steps
        is_chosen = is_first or self.index % self.settings.every == 0
        self.collectives.watch(on=is_chosen and not self.is_full)
        self.step_now = _Step(time.time_ns())

    def called(self, call: Call) -> None:
        """Add a collective to the step in which it was called; before the first there is none."""
        if self.step_now is not None:
            self.step_now.calls.append(call)

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Return what times a phase of the step; not one of a step, which the step clock times."""
        if name.startswith(_STEP) or self.step_now is None:
            return nullcontext()
        return _Phase(self.step_now, name)

    def drain(self, *, wait: bool) -> None:
        """Write the steps whose collectives are over; all of them if `wait`."""
        while self.ended:
            times = [call.times(wait=wait) for call in self.ended[0].calls]
            # What never tells its end holds the others up no longer than two steps.
            if None in times and not wait and len(self.ended) <= _LAG:
                return
            self.write(self.ended.popleft(), times)

    def write(self, step: _Step, times: list[tuple[int, int] | None]) -> None:
        """Write one step, as many of its calls as there is room for; none beyond the bound."""
        self.made += 1
        if self.is_full:
            return
        calls = [
            [self.number(call.message), call.sequence, *_numbers(call, found, step.begin_ns)]
            for call, found in zip(step.calls, times, strict=True)
        ]
        phases = [(name, start - step.begin_ns, end - start) for name, start, end in step.phases]
        line = {"begin_ns": step.begin_ns, "phases": phases, "calls": calls, "left_out": 0}
        text = _text(line)
        while len(text) >= self.settings.bytes_per_step and calls:
            kept = min(len(calls) - 1, len(calls) * self.settings.bytes_per_step // len(text))
            del calls[kept:]
            text = _text(line | {"left_out": len(step.calls) - kept})
        self.is_full = bool(self.written) and 0 < self.bound.share < self.bytes + len(text)
        if self.is_full:
            return
        self.put(text)
        self.written += 1
        if self.written == 1 and self.bound.share:
            self.bound.most(self.bytes, marks.expected_steps() or -1)

    def put(self, text: str) -> None:
        """Write one line."""
        self.file.write(text + "\n")
        self.bytes += len(text) + 1

    def number(self, message: Message) -> int:
        """Return the number of a message, which is written when it is first seen."""
        if message not in self.messages:
            self.messages[message] = len(self.messages)
            self.put(_text({"message": message._asdict()}))
        return self.messages[message]


_HELD_S = 1.0
"""How long steps are held before they are written, the most that is lost of a killed process.

Written together they take half of the time: where ranks share cores, caches are cold at each step.
"""

_LAG = 16
"""Steps that a GPU may be behind the CPU."""


def _numbers(call: Call, times: tuple[int, int] | None, begin_ns: int) -> Iterator[int]:
    """Yield when it was called, how long it took (-1: unknown) and when the GPU came to it."""
    called_ns = call.call_ns - begin_ns
    start_ns, end_ns = times or (0, -1)
    yield called_ns
    yield end_ns - start_ns
    if times and start_ns != call.call_ns:
        yield start_ns - call.call_ns
