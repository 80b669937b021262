"""One module per tool; dropping a file here is all it takes to add one."""

from functools import cache
from typing import TypeGuard

from profkit.capture.base import Tool, check_outputs
from profkit.core import registry


@cache
def tools() -> dict[str, type[Tool]]:
    """Return the settings class of every tool, by name."""
    found = registry.discover(__name__, "Capture", _is_tool)
    for kind in found.values():
        check_outputs(kind)
    return found


def tool(name: str) -> type[Tool]:
    """Import the one tool `name`; raises `ConfigError` if there is none."""
    plugin = registry.tool_plugin(name)
    kind = registry.load("tool", __name__, plugin, "Capture", _is_tool)
    check_outputs(kind)
    return kind


def _is_tool(plugin: object) -> TypeGuard[type[Tool]]:
    return isinstance(plugin, type) and issubclass(plugin, Tool)
