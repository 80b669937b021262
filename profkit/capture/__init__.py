"""One module per tool; dropping a file here is all it takes to add one."""

from functools import cache
from typing import TypeGuard

from profkit.capture.base import Tool
from profkit.core import registry


@cache
def tools() -> dict[str, type[Tool]]:
    """Return the settings class of every tool, by name."""
    return registry.discover(__name__, "Capture", _is_tool)


def tool(name: str) -> type[Tool]:
    """Import the one tool `name`; raises `ConfigError` if there is none."""
    return registry.load("tool", __name__, name, "Capture", _is_tool)


def _is_tool(plugin: object) -> TypeGuard[type[Tool]]:
    return isinstance(plugin, type) and issubclass(plugin, Tool)
