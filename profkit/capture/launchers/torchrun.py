"""torchrun: one process per rank, all stopped when one fails, on one host or several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import PositiveInt

from profkit.capture.launchers.base import DistributedLauncher, Node


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(DistributedLauncher):
    """Start the ranks with ``torch.distributed.run`` of the torch that is profiled."""

    rdzv_backend: Literal["c10d", "static", "etcd-v2", "etcd"] = "c10d"
    """Rendezvous of the hosts; c10d and static need no further service. Between several hosts both
    are torchrun's static one: with c10d, torchrun numbers the hosts by their names."""

    rdzv_endpoint: str = ""
    """``host:port`` where the hosts meet; empty takes MASTER_ADDR and MASTER_PORT of the
    environment, and on a single host a free port."""

    rdzv_id: str = "profkit"
    """Name of the rendezvous; hosts with another name stay apart."""

    join_timeout_s: PositiveInt = 300
    """Seconds that a host waits for the others before it gives up."""

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        if self.host_count > 1 and self.rdzv_backend.startswith("etcd"):
            return (
                f"rdzv_backend={self.rdzv_backend} numbers the ranks in the order in which the"
                f" {self.host_count} hosts come, and files would be named after others: c10d or"
                " static, which need no etcd either"
            )
        return DistributedLauncher.check(self, world_size)

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """See `RankLauncher.command`."""
        torchrun = [self.interpreter, "-m", "torch.distributed.run"]
        ranks = f"--nproc-per-node={world_size // self.host_count}"
        return [*torchrun, *self._rendezvous_flags(node), ranks, *self.extra, *program]

    def _rendezvous_flags(self, node: Node) -> list[str]:
        if self.host_count == 1 and not self.rdzv_endpoint:
            # A fixed port would let two captures on one host disturb each other.
            return ["--standalone"]
        host, _, number = self.rdzv_endpoint.rpartition(":")
        address, port = self.rendezvous(host, int(number or 0), node)
        flags = [f"--nnodes={self.host_count}", f"--node-rank={node.rank}"]
        if self.rdzv_backend == "static" or (self.rdzv_backend == "c10d" and self.host_count > 1):
            flags += ["--rdzv-backend=static", f"--master-addr={address}", f"--master-port={port}"]
            return [*flags, f"--rdzv-conf=timeout={self.join_timeout_s}"]
        flags += [f"--rdzv-backend={self.rdzv_backend}", f"--rdzv-endpoint={address}:{port}"]
        flags += [f"--rdzv-id={self.rdzv_id}"]
        return [*flags, f"--rdzv-conf=join_timeout={self.join_timeout_s}"]
