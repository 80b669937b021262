"""Any command as typed: its ranks are found while it runs, whatever starts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from profkit.capture.launchers.base import Node, RankLauncher


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(RankLauncher):
    """Start the words of ``workload.command`` and follow them through their environment."""

    finds_ranks: ClassVar = True

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        for name in ("python", "extra"):
            if getattr(self, name):
                return f"{name}: the launcher command starts the words as they are; say it there"
        if self.container.engine != "none":
            return "container: start the container in the command itself, or set launcher=python"
        return RankLauncher.check(self, world_size)

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """See `RankLauncher.command`; `program` is the whole command."""
        del world_size, node
        return list(program)
