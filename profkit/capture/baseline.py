"""No profiler: step times, throughput and peak memory, which the other tools are held against."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from profkit.capture.base import NullRecorder, Rank, Recorder, Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Run the workload unchanged, with the harness's step clock only."""

    opens_step_ranges: ClassVar = False
    distribution: ClassVar = "profkit"

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        del out, rank
        yield NullRecorder()
