"""The contract of a workload: settings, and a module that runs one rank of it as ``python -m``."""

from dataclasses import dataclass

from profkit.settings import Settings
from profkit.workloads.zero import Zero


@dataclass(frozen=True, kw_only=True, slots=True)
class Program(Settings):
    """Inherit, call it ``Workload``, and add settings."""

    def unfit(self, zero: Zero, world_size: int) -> str:
        """Return why it cannot run sharded like `zero` on so many ranks, or "" if it can."""
        del zero, world_size
        return ""
