"""The step clock: start and end of each step, under every tool.

Each step becomes a line of ``<label>.steps.part`` at once, so that it survives a process that is
killed; `collect` makes ``<label>.steps.json`` of these lines when the capture has ended.
"""

import json
import resource
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from profkit.capture.base import Rank, Recorder
from profkit.capture.harness.ranks import own_profilers
from profkit.capture.harness.ranks.held_lines import HeldLines
from profkit.capture.harness.record import rank_warnings
from profkit.core import progress_events

SCHEMA_VERSION = 1
_PART = ".steps.part"
_JOIN = "join"
_PLACE = ("hostname", "node", "local_rank")
_EVENT_INTERVAL_S = 0.2


class Timer(Protocol):
    """Measures when steps begin and end on one kind of device."""

    device: str

    def begin(self) -> None:
        """Begin a step now."""

    def end(self) -> None:
        """End the step now."""

    def finished(self, *, wait: bool) -> list[tuple[int, int]]:
        """Return start and end, in unix ns, of steps not returned yet; of all if `wait`."""

    def peak_memory_bytes(self) -> int:
        """Return the peak memory of this process."""


class CpuTimer:
    """Times steps that run on the CPU."""

    device = "cpu"

    def __init__(self) -> None:
        self.start_ns = 0
        self.spans: list[tuple[int, int]] = []

    def begin(self) -> None:
        """See `Timer.begin`."""
        self.start_ns = time.time_ns()

    def end(self) -> None:
        """See `Timer.end`."""
        self.spans.append((self.start_ns, time.time_ns()))

    def finished(self, *, wait: bool) -> list[tuple[int, int]]:
        """See `Timer.finished`."""
        del wait
        spans, self.spans = self.spans, []
        return spans

    def peak_memory_bytes(self) -> int:
        """Return the process's peak resident size."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Linux counts kilobytes, macOS bytes.
        return peak if sys.platform == "darwin" else peak * 1024


class CudaTimer:
    """Times steps on the GPU with events: the CPU runs ahead of it, and waiting costs time."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self.cuda = torch.cuda
        self.pending: deque[tuple[Any, Any]] = deque()
        self.start = self.record_event()
        self.last = self.start
        self.start.synchronize()
        self.last_ns = time.time_ns()

    def record_event(self) -> Any:
        """Record an event on the current stream: it happens when the work before it is done."""
        event = self.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def begin(self) -> None:
        """See `Timer.begin`."""
        self.start = self.record_event()

    def end(self) -> None:
        """See `Timer.end`."""
        self.pending.append((self.start, self.record_event()))

    def finished(self, *, wait: bool) -> list[tuple[int, int]]:
        """See `Timer.finished`."""
        spans = []
        while self.pending and (wait or self.pending[0][1].query()):
            start, end = self.pending.popleft()
            if wait:
                end.synchronize()
            spans.append((self.unix_ns(start), self.unix_ns(end)))
        return spans

    def unix_ns(self, event: Any) -> int:
        """Return when `event` happened, from the event before: floats of ms lack precision."""
        self.last_ns += round(self.last.elapsed_time(event) * 1e6)
        self.last = event
        return self.last_ns

    def peak_memory_bytes(self) -> int:
        """Return the peak of PyTorch's allocated memory on this process's GPU."""
        peak: int = self.cuda.max_memory_allocated()
        return peak


def timer() -> Timer:
    """Return the timer for the device that this process uses; called when set-up is over."""
    torch = sys.modules.get("torch")
    return CudaTimer() if torch is not None and torch.cuda.is_initialized() else CpuTimer()


class StepClock:
    """Listens to the workload's steps, times them, and calls the tool at their boundaries.

    The tool's work between two steps, such as writing a trace, belongs to neither.
    """

    def __init__(
        self, out: Path, rank: Rank, recorder: Recorder, progress: dict[str, Any], node: int = 0
    ) -> None:
        self.out = out
        self.node = node
        self.rank = rank
        self.recorder = recorder
        self.progress = progress
        self.file = HeldLines(out / f"{rank.label}{_PART}")
        self.timer: Timer = CpuTimer()
        self.samples: deque[tuple[int, int]] = deque()
        self.steps = 0
        self.last_event_s = 0.0
        # Under a tool, what profiles the process may be the tool's.
        self.looks_for_profilers = progress.get("tool") == "baseline"

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.timer = timer()
        self.write({"device": self.timer.device, **self._header()})
        self.recorder.begin()
        self.timer.begin()

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""
        self.timer.end()
        self.samples.append((samples, self.timer.peak_memory_bytes()))
        self.steps += 1
        self.recorder.step()
        self.drain(wait=False)
        if self.looks_for_profilers and (found := own_profilers.note()):
            self.note(found)
            self.looks_for_profilers = False
        self.report()
        self.timer.begin()

    def resume(self) -> None:
        """See `profkit.marks.Listener`."""
        self.timer.begin()

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""
        self.steps -= count - 1
        self.write({_JOIN: [first, count]})

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""
        rank_warnings.add(self.out, self.rank, text)

    def drain(self, *, wait: bool) -> None:
        """Write the steps that have ended."""
        for start_ns, end_ns in self.timer.finished(wait=wait):
            self.write([start_ns, end_ns, *self.samples.popleft()])

    def write(self, value: object) -> None:
        """Write one line."""
        self.file.write(json.dumps(value) + "\n")

    def report(self) -> None:
        """Emit the progress of the first rank."""
        now_s = time.monotonic()
        due = now_s - self.last_event_s >= _EVENT_INTERVAL_S
        if self.rank.rank == 0 and (due or self.steps == self.progress.get("total")):
            self.last_event_s = now_s
            progress_events.emit("step", step=self.steps, **self.progress)

    def _header(self) -> dict[str, Any]:
        rank = self.rank
        host = {"hostname": socket.gethostname(), "node": self.node, "local_rank": rank.local_rank}
        return {"label": rank.label, "rank": rank.rank, "world_size": rank.world_size, **host}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the last steps; after an error the device may no longer answer."""
        if kind is None:
            self.drain(wait=True)
        self.file.close()


def steps_so_far(out: Path, rank: Rank) -> int:
    """Return how many steps `rank` has written."""
    part = out / f"{rank.label}{_PART}"
    return len(_read(part)[1]) if part.is_file() else 0


def _read(part: Path) -> tuple[dict[str, Any], list[list[int]]]:
    """Return what the lines of a rank say of it, nothing if there are none, and its steps.

    With ``ended``: how many there were, if some were joined.
    """
    # A process that was killed may leave half a line, or none at all.
    lines = [line for line in part.read_text().splitlines(keepends=True) if line[-1] == "\n"]
    header, *values = map(json.loads, lines) if lines else [{}]
    steps = [value for value in values if isinstance(value, list)]
    joins = [value[_JOIN] for value in values if isinstance(value, dict)]
    about = {"ended": len(steps)} if joins else {}
    # From the last one on: the others go by the numbers that the steps had.
    for first, count in reversed(joins):
        steps[first : first + count] = _joined(steps[first : first + count])
    return header | about, steps


def _joined(steps: Sequence[list[int]]) -> list[list[int]]:
    """Return `steps` as one, none if they were not written."""
    if not steps:
        return []
    starts, ends, samples, peaks = zip(*steps, strict=True)
    return [[starts[0], ends[-1], -1 if -1 in samples else sum(samples), max(peaks)]]


def renumber(out: Path, rank: Rank, node: int) -> None:
    """Correct the numbers of `rank` on host `node`, by whose label its file is called by now."""
    part = out / f"{rank.label}{_PART}"
    lines = part.read_text().splitlines(keepends=True) if part.is_file() else []
    if lines and lines[0].endswith("\n"):
        numbers = {"label": rank.label, "rank": rank.rank, "world_size": rank.world_size}
        numbers |= {"node": node, "local_rank": rank.local_rank}
        part.write_text("".join([json.dumps(json.loads(lines[0]) | numbers) + "\n", *lines[1:]]))


def collect(out: Path, ranks: Iterable[Rank] = ()) -> list[dict[str, Any]]:
    """Make ``<label>.steps.json`` of each rank's lines in `out`; return where each rank ran.

    Of `ranks` with groups of experts it says which, as no label does.
    """
    places, experts = [], {rank.label: rank.ep for rank in ranks if rank.ep >= 0}
    for part in sorted(out.glob(f"*{_PART}")):
        header, steps = _read(part)
        if header:
            # The file has its final name by now.
            label = part.name.removesuffix(_PART)
            document = {"schema_version": SCHEMA_VERSION, **header, "label": label, "steps": steps}
            path = part.with_name(part.name.removesuffix(_PART) + ".steps.json")
            path.write_text(json.dumps(document) + "\n")
            place = {name: document.get(name) for name in ("label", *_PLACE)}
            places.append(place | ({"ep": experts[label]} if label in experts else {}))
        part.unlink()
    return places
