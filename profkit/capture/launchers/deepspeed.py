"""deepspeed: DeepSpeed's own launcher, with its hostfile and its choice of devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import NonNegativeInt

from profkit.capture.launchers.base import DistributedLauncher, Node


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(DistributedLauncher):
    """Start the ranks with ``deepspeed``; each gets ``--local_rank=N`` as its first argument."""

    hostfile: str = ""
    """File with a line ``host slots=N`` for each host; needed for several."""

    include: str = ""
    """Hosts and devices to use, as ``host@host:0,2``; empty takes the first `world_size`."""

    exclude: str = ""
    """Hosts and devices to leave out, in the same form."""

    master_addr: str = ""
    """Name of the first host; empty takes MASTER_ADDR of the environment."""

    master_port: NonNegativeInt = 0
    """Port where ranks meet; 0 takes MASTER_PORT, and on a single host a free one."""

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        if self.host_count > 1 and not self.hostfile:
            return f"{self.host_count} hosts need launcher.hostfile: a line 'host slots=N' for each"
        return DistributedLauncher.check(self, world_size)

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """See `RankLauncher.command`."""
        _, module, *arguments = program
        address, port = self.rendezvous(self.master_addr, self.master_port, node)
        flags = [f"--master_addr={address}", f"--master_port={port}"]
        if self.hostfile:
            flags += [f"--hostfile={self.hostfile}"]
        if self.host_count > 1:
            # profkit runs on each host, so DeepSpeed must not go there as well.
            flags += ["--no_ssh", f"--node_rank={node.rank}"]
        flags += self._devices(world_size)
        launch = [self.interpreter, "-m", "deepspeed.launcher.runner"]
        return [*launch, *flags, *self.extra, "--module", module, *arguments]

    def _devices(self, world_size: int) -> list[str]:
        if self.include or self.exclude:
            chosen = {"include": self.include, "exclude": self.exclude}
            return [f"--{key}={value}" for key, value in chosen.items() if value]
        return [f"--num_gpus={world_size // self.host_count}"]
