"""One module per family of models; dropping a file here is all it takes to add one."""

from typing import TypeGuard

from profkit.core import registry
from profkit.workloads.models.base import ModelFamily


def families() -> dict[str, type[ModelFamily]]:
    """Return the settings class of every family, by name."""
    return registry.discover(__name__, "Model", _is_family)


def family(name: str) -> type[ModelFamily]:
    """Import the one family `name`; raises `ConfigError` if there is none."""
    return registry.load("model family", __name__, name, "Model", _is_family)


def _is_family(plugin: object) -> TypeGuard[type[ModelFamily]]:
    return isinstance(plugin, type) and issubclass(plugin, ModelFamily)
