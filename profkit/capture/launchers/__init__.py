"""Ways to start the ranks; dropping a file here is all it takes to add one."""

from typing import TypeGuard

from profkit.capture.launchers.base import RankLauncher
from profkit.core import registry


def launchers() -> dict[str, type[RankLauncher]]:
    """Return the settings class of every launcher, by name."""
    return registry.discover(__name__, "Launcher", _is_launcher)


def launcher(name: str) -> type[RankLauncher]:
    """Import the one launcher `name`; raises `ConfigError` if there is none."""
    return registry.load("launcher", __name__, name, "Launcher", _is_launcher)


def _is_launcher(plugin: object) -> TypeGuard[type[RankLauncher]]:
    return isinstance(plugin, type) and issubclass(plugin, RankLauncher)
