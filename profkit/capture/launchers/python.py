"""One plain Python process, for runs of a single rank."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from profkit.capture.launchers.base import RankLauncher


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(RankLauncher):
    """Start the program with the Python that runs profkit."""

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        if world_size == 1:
            return ""
        return f"launcher python starts one rank, not {world_size}; set launcher=torchrun"

    def command(self, program: Sequence[str], world_size: int) -> list[str]:
        """See `RankLauncher.command`."""
        del world_size
        return [sys.executable, *program]
