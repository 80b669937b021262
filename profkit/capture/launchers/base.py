"""The contract of a launcher: a settings dataclass that composes one command line."""

import operator
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PositiveInt

from profkit.capture.launchers._container import Container
from profkit.core.formatting import counted
from profkit.core.settings import Settings

# Beyond, a number is a mistake: no host has so many processors.
_MOST_RANKS = 1024


def _words(value: Any) -> Any:
    """Return the words of a command that is given as text."""
    return shlex.split(value) if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One host of a run, and the rendezvous of the ranks of all hosts."""

    rank: int = 0
    """Number of the host, from 0; the first one writes the record of the capture."""

    master_address: str = ""
    """Name of the first host; "" if it is not known."""

    master_port: int = 0
    """Port on the first host where the ranks meet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLauncher(Settings):
    """Starts a Python program once per rank, with RANK, LOCAL_RANK and WORLD_SIZE set."""

    finds_ranks: ClassVar[bool] = False
    """Whether it starts a whole command instead, whose ranks are found while it runs."""

    python: str = ""
    """Python that runs the ranks and has profkit installed; empty takes the one of profkit."""

    env: dict[str, Annotated[str, Field(coerce_numbers_to_str=True)]] = field(default_factory=dict)
    """Environment variables of the ranks beside those that profkit itself was started with."""

    cwd: str = ""
    """Folder that the ranks start in; empty takes the one that profkit was started in."""

    extra: tuple[str, ...] = ()
    """Flags of the launcher passed through unread, for what the other settings leave out."""

    container: Container = field(default_factory=Container)
    """Image that the launcher, the ranks and the tools run in."""

    @property
    def interpreter(self) -> str:
        """The Python executable that the command line begins with."""
        if self.container.engine != "none":
            return self.container.python
        return self.python or sys.executable

    @property
    def working_folder(self) -> Path:
        """Folder that the ranks start in, as an absolute path."""
        return Path(self.cwd or Path.cwd()).resolve()

    @property
    def environment_variables(self) -> dict[str, str]:
        """Variables that are added to profkit's own environment for the ranks."""
        return self.env

    @property
    def host_count(self) -> int:
        """Number of hosts that the ranks run on."""
        return 1

    def check(self, world_size: int) -> str:
        """Return why this launcher cannot start `world_size` ranks, or "" if it can."""
        if (ranks := world_size // self.host_count) > _MOST_RANKS:
            return f"{ranks} ranks on one host: {_MOST_RANKS} at most; lower world_size"
        if not self.working_folder.is_dir():
            return f"cwd: no such folder: {self.cwd}"
        if self.container.engine == "none" and not shutil.which(self.interpreter):
            return f"python: no such program: {self.python}"
        return self.container.check()

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """Return the command line that starts `program` (arguments of Python) on this host.

        It starts the ranks of `node`, which together with the other hosts make `world_size`.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributedLauncher(RankLauncher):
    """A launcher of several ranks, on one host or on several with as many ranks each."""

    nnodes: PositiveInt = 1
    """Number of hosts; profkit has to be started on each, see `across` and `hosts`."""

    across: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """Command that starts what follows it once on each host: ``srun`` alone gets the flags that
    Slurm needs, ``kubernetes`` means the pods of ``--on kubernetes``; empty if you start the same
    ``profkit capture`` on each host yourself."""

    # Left out where it is empty: captures of before there was this key stay the same run.
    hosts: Annotated[tuple[str, ...], Field(exclude_if=operator.not_)] = ()
    """Names of the hosts, which ssh must reach without a password; the ranks meet on the first."""

    @property
    def host_count(self) -> int:
        """See `RankLauncher.host_count`."""
        return len(self.hosts) or self.nnodes

    def check(self, world_size: int) -> str:
        """See `RankLauncher.check`."""
        if self.hosts and self.nnodes not in {1, len(self.hosts)}:
            return f"nnodes={self.nnodes}, but hosts names {len(self.hosts)}: leave out nnodes"
        if self.hosts and self.across:
            return "hosts and across are two ways to reach the hosts: set one of them"
        if odd := [name for name in self.hosts if not name or name.startswith("-")]:
            return f"hosts: not the name of a host: {odd[0]!r}"
        if world_size % self.host_count:
            ranks = counted(world_size, "rank")
            return f"{ranks} cannot be spread evenly over {self.host_count} hosts"
        return RankLauncher.check(self, world_size)

    def rendezvous(self, address: str, port: int, node: Node) -> tuple[str, int]:
        """Return the address and port where the hosts meet: the settings', or those of `node`."""
        return address or node.master_address or "127.0.0.1", port or node.master_port
