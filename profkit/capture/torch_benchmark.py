"""torch_benchmark: forward, backward, optimizer and step by themselves, by torch.utils.benchmark.

The parts are those that a built-in workload offers once its steps are done; scripts offer none.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from profkit import marks
from profkit.capture.base import NullRecorder, Rank, Recorder, Session
from profkit.core.bounds import PositiveInt
from profkit.core.errors import ProfkitError
from profkit.core.settings import ADDED_LATER

if TYPE_CHECKING:
    from torch.utils.benchmark import Measurement

_SUFFIX = ".benchmark.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Time the parts of a step again and again after the last step; one file for each rank.

    The steps themselves run as without any tool.
    """

    outputs: ClassVar = (f"*{_SUFFIX}",)
    opens_step_ranges: ClassVar = False

    measurements: PositiveInt = 10
    """Measurements of each part, which show how much it varies."""

    calls: PositiveInt = 3
    """Calls that are timed together as one measurement, after two that are not timed.

    Fixed, and not chosen by the time that they take: ranks communicate in every call.
    """

    threads: PositiveInt | None = field(default=None, metadata=ADDED_LATER)
    """Threads that operators on the CPU take while it measures; null leaves the program's own."""

    @property
    def records_all_ranks(self) -> bool:
        """Return True: the ranks communicate, so that the others wait for one that does not run."""
        return True

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        path = out / f"{rank.label}{_SUFFIX}"

        def taker(parts: marks.Parts) -> None:
            path.write_text(json.dumps(self.benchmarked(parts)) + "\n")

        marks.take_parts(taker)
        yield NullRecorder()
        if not path.is_file():
            raise ProfkitError(
                "the workload offers no parts of a step to be timed",
                hint="use workload=train or infer, or leave out this tool: ~tools.torch_benchmark",
            )

    def benchmarked(self, parts: marks.Parts) -> dict[str, Any]:
        """Return all measurements of all `parts`."""
        import torch

        is_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        clock = _Clock(torch.cuda.synchronize if is_cuda else lambda: None)
        return {
            "schema_version": 1,
            "torch": torch.__version__,
            "device": "cuda" if is_cuda else "cpu",
            "threads": self.threads or torch.get_num_threads(),
            "parts": {
                name: [_plain(self.measured(name, part, clock)) for _ in range(self.measurements)]
                for name, part in parts().items()
            },
        }

    def measured(self, name: str, part: marks.Part, clock: "_Clock") -> "Measurement":
        """Return one measurement of `part`, without its preparation."""
        import torch
        from torch.utils.benchmark import Timer

        def prepare() -> None:
            with clock.stopped():
                part.prepare()

        # Timer's default is one thread.
        timer = Timer(
            stmt="prepare()\nrun()",
            globals={"prepare": prepare, "run": part.run},
            timer=clock.seconds,
            num_threads=self.threads or torch.get_num_threads(),
            sub_label=name,
        )
        return timer.timeit(self.calls)


class _Clock:
    """A clock that can be stopped, and synchronises with the device at each reading."""

    def __init__(self, synchronise: Any) -> None:
        self.synchronise = synchronise
        self.stopped_s = 0.0

    def seconds(self) -> float:
        """Return the seconds while the clock ran."""
        self.synchronise()
        return time.perf_counter() - self.stopped_s

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock inside this context."""
        self.synchronise()
        before_s = time.perf_counter()
        yield
        self.synchronise()
        self.stopped_s += time.perf_counter() - before_s


def _plain(measurement: "Measurement") -> dict[str, Any]:
    """Return the number of calls, and the seconds that they took together."""
    return {"calls": measurement.number_per_run, "seconds": measurement.raw_times}
