"""The contract of a workload: settings, and a module that runs one rank of it as ``python -m``."""

from dataclasses import dataclass
from pathlib import Path

from profkit.core.settings import Settings
from profkit.workloads.zero import Zero

HANDED_IN = "PROFKIT_ARGUMENTS"
"""Environment variable with what the launcher adds to a program's arguments, as a JSON list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program(Settings):
    """Inherit, call it ``Workload``, and add settings."""

    def check(self, folder: Path) -> str:
        """Return why this program cannot run in `folder`, or "" if it can."""
        del folder
        return ""

    def unfit(self, zero: Zero, world_size: int) -> str:
        """Return why it cannot run sharded like `zero` on so many ranks, or "" if it can."""
        del zero, world_size
        return ""

    def total_steps(self, steps: int) -> int:
        """Return how many steps it runs when `steps` are asked for, -1 if only it knows."""
        return steps

    def subject(self, model: str) -> str:
        """Return what is profiled, in a word for the run's name; `model` is the one chosen."""
        return model
