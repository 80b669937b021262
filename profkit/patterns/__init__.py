"""One module per pattern, something known to cost time and what to do about it."""

from functools import cache
from typing import TypeGuard

from profkit.core import registry
from profkit.patterns.base import Pattern


@cache
def patterns() -> dict[str, Pattern]:
    """Return every pattern, by name."""
    return registry.discover(__name__, "match", _is_pattern)


def _is_pattern(plugin: object) -> TypeGuard[Pattern]:
    return isinstance(plugin, Pattern)
