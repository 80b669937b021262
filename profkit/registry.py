"""Find plugins by looking: every module of a stage package is one plugin."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType, ModuleType
from typing import TypeGuard, TypeVar

from profkit.errors import PluginError
from profkit.settings import known

T = TypeVar("T")


@cache
def module_names(package: str) -> Mapping[str, str]:
    """Return the dotted module of each plugin of `package`, by plugin name, without importing it.

    Modules named ``base`` or with a leading underscore, and sub-packages, are not plugins.
    Installed distributions add theirs through the entry point group named like the package.
    Looked up once in a process: reading every distribution's entry points takes 0.1 s.
    """
    # Not by importing it: the package of the analyses loads pandas.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(package)
    found = {
        info.name: f"{package}.{info.name}"
        for info in pkgutil.iter_modules(spec.submodule_search_locations)
        if not info.ispkg and info.name != "base" and not info.name.startswith("_")
    }
    for point in external(package):
        if point.name in found:
            raise PluginError(f"{point.value}: the name {point.name!r} is already taken")
        found[point.name] = point.value
    return MappingProxyType(dict(sorted(found.items())))


def converter_module(tool: str) -> str:
    """Return the module that converts the captures of `tool`."""
    return module_names("profkit.convert").get(tool, "profkit.convert.__main__")


def external(package: str) -> list[EntryPoint]:
    """Return the entry points by which installed distributions add plugins to `package`."""
    return sorted(entry_points(group=package), key=lambda point: point.name)


def load(
    what: str, package: str, name: str, attribute: str, accepts: Callable[[object], TypeGuard[T]]
) -> T:
    """Import the one plugin `name` of `package` and return its `attribute`."""
    module = importlib.import_module(known(what, name, module_names(package)))
    return _plugin(module, attribute, accepts)


def discover(
    package: str, attribute: str, accepts: Callable[[object], TypeGuard[T]]
) -> dict[str, T]:
    """Return every plugin of `package` by name, in alphabetical order."""
    return {
        name: _plugin(importlib.import_module(module), attribute, accepts)
        for name, module in module_names(package).items()
    }


def _plugin(module: ModuleType, attribute: str, accepts: Callable[[object], TypeGuard[T]]) -> T:
    plugin = getattr(module, attribute, None)
    if not accepts(plugin):
        raise PluginError(
            f"{module.__file__}:1: `{attribute}` is missing or is not a plugin",
            hint=f"see {module.__name__.rpartition('.')[0]}.base for what it must be",
        )
    return plugin


def first_line(module: str) -> str:
    """Return the first line of the docstring of `module`, which is what ``profkit list`` prints."""
    doc = importlib.import_module(module).__doc__ or ""
    return doc.strip().partition("\n")[0]
