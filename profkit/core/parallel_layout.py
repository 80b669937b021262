"""Parallel coordinates of ranks: data-parallel replica, tensor shard, pipeline stage."""

from dataclasses import dataclass
from typing import Literal

from profkit.core.bounds import PositiveInt
from profkit.core.settings import Settings

Axis = Literal["dp", "tp", "pp"]
Coordinate = Literal[Axis, "ep"]
"""Axes with that of experts, which divides the ranks of the others once more."""

Ranks = Literal["all", "first-of-each-stage", "representative"] | tuple[int, ...]
"""Ranks that a tool records; numbers are global ranks."""

REPRESENTATIVE: Literal["representative"] = "representative"
CHOICE = "representative_ranks"
"""The analysis whose result says which ranks these are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parallel(Settings):
    """How the program lays its ranks out, as far as it cannot be asked; see `conf/config.yaml`."""

    tp: PositiveInt = 1
    """Tensor-parallel shards; the remaining factor of the world size is data-parallel."""

    pp: PositiveInt = 1
    """Pipeline stages."""

    order: tuple[Axis, Axis, Axis] = ("tp", "dp", "pp")
    """Axes from the one that changes with every rank to the slowest; this is Megatron's order."""

    def check(self, world_size: int) -> str:
        """Return why `world_size` ranks cannot be laid out like this, or ""."""
        if set(self.order) != {"dp", "tp", "pp"}:
            return f"order must name dp, tp and pp once each, not {', '.join(self.order)}"
        if world_size % (self.tp * self.pp):
            return f"{world_size} ranks cannot be split into tp={self.tp} times pp={self.pp}"
        return ""

    def coordinates(self, rank: int, world_size: int) -> dict[Axis, int]:
        """Return the coordinates of `rank`, each from 0."""
        sizes: dict[Axis, int] = {"tp": self.tp, "pp": self.pp}
        sizes["dp"] = max(world_size // (self.tp * self.pp), 1)
        found: dict[Axis, int] = {}
        for axis in self.order:
            rank, found[axis] = divmod(rank, sizes[axis])
        return found
