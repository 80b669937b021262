"""One module per tool whose raw files profkit can read, named like the tool."""

from typing import TypeGuard

from profkit import registry
from profkit.convert.base import Converter


def converters() -> dict[str, Converter]:
    """Return every converter, by the name of the tool that it reads."""
    return registry.discover(__name__, "convert", _is_converter)


def converter(name: str) -> Converter:
    """Import the one converter `name`; raises `ConfigError` if there is none."""
    return registry.load("converter", __name__, name, "convert", _is_converter)


def _is_converter(plugin: object) -> TypeGuard[Converter]:
    return isinstance(plugin, Converter)
