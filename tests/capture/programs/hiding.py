"""A tool that ends with 0 however its program ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from profkit.capture.base import Rank, Wrapper


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    # A program with a version.
    binary: ClassVar = "bash"

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        del out, rank
        return [self.binary, "-c", '"$@"; exit 0', "hiding", *workload]
