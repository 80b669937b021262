"""One module per analysis; dropping a file here is all it takes to add one."""

from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from profkit.core import registry

if TYPE_CHECKING:
    from profkit.analyze.base import Analysis


@cache
def analyses() -> dict[str, "Analysis"]:
    """Return every analysis, by name."""
    return registry.discover(__name__, "analyze", _is_analysis)


def analysis(name: str) -> "Analysis":
    """Import the one analysis `name`; raises `ConfigError` if there is none."""
    return registry.load("analysis", __name__, name, "analyze", _is_analysis)


def _is_analysis(plugin: object) -> TypeGuard["Analysis"]:
    from profkit.analyze.base import Analysis  # noqa: PLC0415 - the plugin has loaded it

    return isinstance(plugin, Analysis)
