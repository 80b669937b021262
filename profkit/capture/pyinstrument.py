"""pyinstrument: samples Python call stacks from inside the process, with times to the sample."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from profkit.capture.base import NullRecorder, Rank, Recorder, Session
from profkit.core.bounds import PositiveFloat

if TYPE_CHECKING:
    from pyinstrument import Profiler

_SUFFIX = ".pyinstrument.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Record the thread that runs the workload; one session of pyinstrument for each rank."""

    outputs: ClassVar = (f"*{_SUFFIX}",)
    is_of_one_thread: ClassVar = True
    distribution: ClassVar = "pyinstrument"

    interval_s: PositiveFloat = 0.001
    """Seconds between samples; calls that are made seldom or briefly go unseen."""

    start_up: bool = False
    """Record imports and the making of the model as well, and not only the steps."""

    async_mode: Literal["enabled", "disabled", "strict"] = "disabled"
    """Whether time spent awaiting is separated, for programs with an event loop."""

    timing_thread: bool | None = None
    """Have a thread keep the time, where asking the clock is slow; null lets pyinstrument find out.
    """

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        # Late, and by its whole name: this module has the same.
        from pyinstrument import Profiler

        profiler = Profiler(
            interval=self.interval_s,
            async_mode=self.async_mode,
            use_timing_thread=self.timing_thread,
        )
        if self.start_up:
            profiler.start()
        try:
            yield _Recorder(profiler)
        finally:
            if profiler.is_running:
                # Also after an error: the samples so far are worth keeping.
                profiler.stop().save(out / f"{rank.label}{_SUFFIX}")


class _Recorder(NullRecorder):
    """Starts the profiler at the first step, if it is not running yet."""

    def __init__(self, profiler: "Profiler") -> None:
        self.profiler = profiler

    def begin(self) -> None:
        """See `Recorder.begin`."""
        if not self.profiler.is_running:
            self.profiler.start()
