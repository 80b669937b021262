"""ZeRO: the stage, that is what is sharded over data-parallel ranks, and the backend."""

from dataclasses import dataclass
from typing import Literal, TypeGuard

from profkit.core import registry
from profkit.core.settings import Settings
from profkit.workloads.zero.base import Backend


@dataclass(frozen=True, kw_only=True, slots=True)
class Zero(Settings):
    """Composed from ``conf/zero/<name>.yaml``."""

    stage: Literal[0, 1, 2, 3] = 0
    """What is sharded: 1 the optimizer's state, 2 gradients too, 3 parameters too; 0 nothing."""

    backend: str = "torch"
    """Library that shards; always torch in stage 0, which shards nothing."""

    offload: Literal["none", "optimizer", "parameters"] = "none"
    """Data that the CPU keeps and updates: the optimizer's state, or parameters and state."""

    def __post_init__(self) -> None:
        # A sweep over stages and backends then has a single run without sharding.
        if self.stage == 0:
            object.__setattr__(self, "backend", "torch")

    def check(self, world_size: int) -> str:
        """Return why `world_size` ranks cannot train with these settings, or "" if they can."""
        backend = self.load()
        if self.stage > 0 and world_size == 1:
            return "one rank has no other to share with; set world_size=2 or more, or zero=none"
        if self.stage == 0 and self.offload != "none":
            return f"offload={self.offload} needs state that is sharded: zero1, zero2 or zero3"
        if self.stage < 3 and self.offload == "parameters":  # noqa: PLR2004 - ZeRO's last stage
            return "offload=parameters needs parameters that are sharded: zero=zero3"
        return backend.check(self.stage, self.offload)

    def load(self) -> Backend:
        """Return the backend; raises `ConfigError` if there is none of this name."""
        kind = registry.load("ZeRO backend", __name__, self.backend, "Backend", _is_backend)
        return kind()


def _is_backend(plugin: object) -> TypeGuard[type[Backend]]:
    return isinstance(plugin, type) and issubclass(plugin, Backend)
