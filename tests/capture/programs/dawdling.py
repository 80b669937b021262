"""A tool that holds a rank up for longer than the groups of ``grouped`` allow."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from profkit.capture.base import NullRecorder, Rank, Session


class Dawdler(NullRecorder):
    def step(self) -> None:
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 2:
            time.sleep(5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    outputs: ClassVar = ("*.dawdled.txt",)

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[NullRecorder]:
        yield Dawdler()
        (out / f"{rank.label}.dawdled.txt").touch()
