"""torchrun on this host: one process per rank, all stopped when one fails."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from profkit.capture.launchers.base import RankLauncher


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(RankLauncher):
    """Start the ranks with ``torch.distributed.run`` of the torch that is profiled."""

    rdzv_endpoint: str = ""
    """``host:port`` where the ranks meet; empty lets torchrun take a free port by itself."""

    extra: tuple[str, ...] = ()
    """Flags of torchrun passed through unread, for what the settings above leave out."""

    def command(self, program: Sequence[str], world_size: int) -> list[str]:
        """See `RankLauncher.command`."""
        # A fixed port would let two captures on one host disturb each other.
        meet = ["--standalone"]
        if self.rdzv_endpoint:
            meet = ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.rdzv_endpoint}"]
        ranks = f"--nproc-per-node={world_size}"
        torchrun = [sys.executable, "-m", "torch.distributed.run"]
        return [*torchrun, *meet, ranks, *self.extra, *program]
