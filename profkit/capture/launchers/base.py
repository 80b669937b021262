"""The contract of a launcher: a settings dataclass that composes one command line."""

from collections.abc import Sequence
from dataclasses import dataclass

from profkit.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLauncher(Settings):
    """Starts a Python program once per rank, with RANK, LOCAL_RANK and WORLD_SIZE set."""

    def check(self, world_size: int) -> str:
        """Return why this launcher cannot start `world_size` ranks, or "" if it can."""
        del world_size
        return ""

    def command(self, program: Sequence[str], world_size: int) -> list[str]:
        """Return the command line that starts `program` (arguments of Python) on each rank."""
        raise NotImplementedError
