"""Base class of workloads: settings, and a module that runs one rank as ``python -m``."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from profkit.core.settings import Settings
from profkit.workloads.zero import Zero

EXTRA_ARGUMENTS = "PROFKIT_ARGUMENTS"
"""Environment variable with the arguments that the launcher adds, as a JSON list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseWorkload(Settings):
    """Inherit, call it ``Workload``, and add settings."""

    reads_configuration: ClassVar[bool] = True
    """Whether it reads the run's configuration, such as ``batch``, and not its command alone."""

    has_only_replicas: ClassVar[bool] = False
    """Whether its ranks are data-parallel replicas, whatever ``parallel`` says."""

    rank_modules: ClassVar[tuple[str, ...] | None] = None
    """Modules that each of several ranks loads beside PyTorch: ranks may then be forks of a process
    that has loaded them. None where each is to be a program of its own."""

    def check(self, folder: Path) -> str:
        """Return why this workload cannot run in `folder`, or "" if it can."""
        del folder
        return ""

    def check_command(self, folder: Path) -> str:
        """Return why its command cannot be started from `folder` as it stands, or ""."""
        del folder
        return "the launcher command starts a command of yours: set workload=script"

    @property
    def words(self) -> list[str]:
        """Words of its command; [] for one that is not started by a command of the user's."""
        return []

    def program(self, folder: Path) -> Path | None:
        """Return the user's file that it runs from `folder`, if it is one."""
        del folder
        return None

    def check_sharding(self, zero: Zero, world_size: int) -> str:
        """Return why it cannot run on `world_size` ranks sharded by `zero`, or "" if it can."""
        del zero, world_size
        return ""

    def total_steps(self, steps: int) -> int:
        """Return how many steps it runs when `steps` are configured; -1 if that is not known."""
        return steps

    def name_for_run(self, model: str) -> str:
        """Return the word for the run's name; `model` is the configured model."""
        return model
