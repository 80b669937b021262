"""One module per tool whose raw files profkit can read, named like the tool."""

from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from profkit.core import registry

if TYPE_CHECKING:
    from profkit.convert.base import Converter

STEPS = "steps"
"""A table that every tool has: from its converter, or else from the capture harness."""

HOSTS = "hosts"
"""A table that every tool has, from the record of the capture."""


@cache
def converters() -> dict[str, "Converter"]:
    """Return every converter, by the name of the tool that it reads."""
    return registry.discover(__name__, "convert", _is_converter)


def converter(name: str) -> "Converter":
    """Import the one converter `name`; raises `ConfigError` if there is none."""
    plugin = registry.tool_plugin(name)
    return registry.load("converter", __name__, plugin, "convert", _is_converter)


def has_converter(tool: str) -> bool:
    """Return whether `tool` has a converter; one without leaves only the harness's steps."""
    return registry.find(__name__, registry.tool_plugin(tool)) is not None


@cache
def produced(tool: str) -> tuple[str, ...]:
    """Return the tables that converting `tool` leaves."""
    tables = converter(tool).produces if has_converter(tool) else ()
    return (*tables, HOSTS) if STEPS in tables else (STEPS, *tables, HOSTS)


def _is_converter(plugin: object) -> TypeGuard["Converter"]:
    from profkit.convert.base import Converter  # noqa: PLC0415 - the plugin has loaded it

    return isinstance(plugin, Converter)
