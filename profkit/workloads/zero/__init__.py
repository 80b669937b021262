"""What is sharded over the data-parallel ranks, and by whom (ZeRO's stages)."""

from dataclasses import dataclass
from typing import Literal

from profkit.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Zero(Settings):
    """Composed from ``conf/zero/<name>.yaml``."""

    stage: Literal[0] = 0
    """0 shards nothing: each rank holds all parameters, gradients and optimizer state."""

    backend: Literal["torch"] = "torch"
    """Library that replicates or shards; torch's DistributedDataParallel for stage 0."""

    offload: Literal["none"] = "none"
    """Where sharded state is kept between uses; none leaves it on the device."""
