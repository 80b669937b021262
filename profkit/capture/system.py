"""system: samples of the GPU (NVML), CPU, memory, disks and network while the workload runs."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from profkit import marks
from profkit.capture._sensors import Sensors
from profkit.capture.base import Rank, Recorder, Session
from profkit.capture.harness.machine import nvml
from profkit.capture.harness.ranks.clock import Timer, timer
from profkit.core.bounds import PositiveFloat

_SUFFIX = ".samples.jsonl"
_STEP = "step#"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Read sensors and counters from a thread of each rank; lines of JSON as they come.

    Every rank reads its own process and the GPU that it computes on from its first step on; the
    first rank of a host also reads the host.
    """

    outputs: ClassVar = (f"*{_SUFFIX}",)
    opens_step_ranges: ClassVar = False
    distribution: ClassVar = "psutil"

    period_s: PositiveFloat = 0.1
    """Seconds from sample to sample; each takes about a millisecond, in which Python stands."""

    host: bool = True
    """Read CPU, memory, disks and network of each host as well."""

    phases: bool = True
    """Time phases, for energy and utilisation by phase."""

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        path = out / f"{rank.label}{_SUFFIX}"
        with path.open("w", buffering=1) as file, nvml.opened() as library:
            sensors = Sensors(library, with_host=self.host and rank.local_rank == 0)
            sampler = _Sampler(_Lines(file), sensors, self.period_s)
            sampler.start()
            recorder = _Recorder(sampler, _Phases(sampler.lines) if self.phases else None)
            try:
                yield recorder
            finally:
                sampler.end()
            recorder.close()


class _Lines:
    """The file, which two threads write to."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.lock = threading.Lock()

    def write(self, **values: object) -> None:
        """Write one line."""
        with self.lock:
            self.file.write(json.dumps(values) + "\n")


class _Sampler(threading.Thread):
    """Reads the sensors every period; a sample that comes too late is left out, not made up."""

    def __init__(self, lines: _Lines, sensors: Sensors, period_s: float) -> None:
        super().__init__(name="profkit-system", daemon=True)
        self.lines = lines
        self.sensors = sensors
        self.period_s = period_s
        self.stopped = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        """Read until `end` is called."""
        try:
            self.sample_until_stopped()
        except Exception as error:  # noqa: BLE001 - raised again on the thread that waits
            self.failure = error

    def sample_until_stopped(self) -> None:
        """Take a sample every period, and write their cost at the end."""
        start_s = time.monotonic()
        while True:
            self.sample()
            left_s = self.period_s - (time.monotonic() - start_s) % self.period_s
            if self.stopped.wait(left_s):
                break
        self.sample()
        elapsed_s = time.monotonic() - start_s
        self.lines.write(cpu_ns=time.thread_time_ns(), elapsed_ns=round(elapsed_s * 1e9))

    def sample(self) -> None:
        """Write one sample; its time is the middle of the reading."""
        before_ns = time.time_ns()
        readings = self.sensors.read()
        self.lines.write(time_ns=(before_ns + time.time_ns()) // 2, readings=readings)

    def end(self) -> None:
        """Take a last sample and stop; raises the error that ended sampling before, if any."""
        self.stopped.set()
        self.join()
        if self.failure is not None:
            raise self.failure


class _Phases:
    """Times phases where they run, on CPU or GPU, like the step clock."""

    def __init__(self, lines: _Lines) -> None:
        self.lines = lines
        self.timers: dict[str, Timer] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time this context, unless it is a step, which the step clock times."""
        if name.startswith(_STEP):
            yield
            return
        own = self.timers.setdefault(name, timer())
        own.begin()
        try:
            yield
        finally:
            own.end()

    def drain(self, *, wait: bool) -> None:
        """Write the phases that have ended."""
        for name, phase_timer in self.timers.items():
            for start_ns, end_ns in phase_timer.finished(wait=wait):
                kind = "device" if phase_timer.device == "cuda" else "host"
                self.lines.write(phase=name, kind=kind, start_ns=start_ns, end_ns=end_ns)


class _Recorder:
    """Finds the GPU when the first step begins, and writes phases between steps."""

    def __init__(self, sampler: _Sampler, phases: _Phases | None) -> None:
        self.sampler = sampler
        self.phases = phases

    def begin(self) -> None:
        """See `Recorder.begin`."""
        if reason := self.sampler.sensors.find_gpu():
            marks.note(reason)
        if self.phases is not None:
            marks.mark_too(self.phases.phase)

    def step(self) -> None:
        """See `Recorder.step`."""
        if self.phases is not None:
            self.phases.drain(wait=False)

    def close(self) -> None:
        """Write the last phases."""
        if self.phases is not None:
            self.phases.drain(wait=True)
