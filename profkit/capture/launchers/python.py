"""One plain Python process, for runs of a single rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from profkit.capture.launchers.base import Node, RankLauncher


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(RankLauncher):
    """Start the program with Python and nothing between."""

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        if world_size > 1:
            return f"launcher python starts one rank, not {world_size}; set launcher=torchrun"
        return RankLauncher.check(self, world_size)

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """See `RankLauncher.command`."""
        del world_size, node
        return [self.interpreter, *self.extra, *program]
