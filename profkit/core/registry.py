"""Find plugins by looking: every module of a stage package is one plugin."""

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from profkit.core.errors import PluginError
from profkit.core.settings import known

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")

VARIANT = "@"
"""What stands between the name of a tool and the settings in which one of its captures differs."""

_DEFINED = re.compile(r"^(?:class Capture|def (?:convert|analyze|match))\b", re.MULTILINE)


@cache
def module_names(package: str) -> Mapping[str, str]:
    """Return the dotted module of each plugin of `package`, by plugin name, without importing it.

    Modules named ``base`` or with a leading underscore are not plugins, nor are sub-packages that
    define none in their ``__init__``: those are rooms that plugins share.
    Installed distributions add theirs through the entry point group named like the package.
    """
    found = {**own(package)}
    for point in external(package):
        if point.name in found:
            raise PluginError(f"{point.value}: the name {point.name!r} is already taken")
        found[point.name] = point.value
    return MappingProxyType(dict(sorted(found.items())))


def find(package: str, name: str) -> str | None:
    """Return the dotted module of one plugin of `package`; None if there is none.

    The entry points of all distributions, which take a job 0.04 s, are read only for one that is
    not a module of `package` itself.
    """
    return own(package).get(name) or module_names(package).get(name)


def module_name(what: str, package: str, name: str) -> str:
    """Return the same; raises a `ConfigError` that says which `what` there are."""
    return find(package, name) or known(what, name, module_names(package))


def tool_plugin(tool: str) -> str:
    """Return the plugin behind `tool`: several captures of a run may differ in its settings."""
    return tool.partition(VARIANT)[0]


def converter_module(tool: str) -> str:
    """Return the module that converts the captures of `tool`."""
    return find("profkit.convert", tool_plugin(tool)) or "profkit.convert.__main__"


def external(package: str) -> list["EntryPoint"]:
    """Return the entry points by which installed distributions add plugins to `package`."""
    return sorted(_entry_points().select(group=package), key=lambda point: point.name)


@cache
def _entry_points() -> "EntryPoints":
    """Return those of all distributions, whose files are read for it, once for all packages."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - most jobs need none

    # Python 3.11 returns an older type, which can `select` as well.
    return cast("EntryPoints", entry_points())


@cache
def own(package: str) -> Mapping[str, str]:
    """Return the dotted module of each plugin that is a file or a folder of `package` itself."""
    # Not by importing it: the package of the analyses loads pandas.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(package)
    return {
        info.name: f"{package}.{info.name}"
        for info in pkgutil.iter_modules(spec.submodule_search_locations)
        if info.name != "base" and not info.name.startswith("_")
        if not info.ispkg or _is_plugin(spec.submodule_search_locations[0], info.name)
    }


def _is_plugin(folder: str, name: str) -> bool:
    """Say whether a sub-package is a plugin: its ``__init__`` defines one, as a file would."""
    return bool(_DEFINED.search(Path(folder, name, "__init__.py").read_text(encoding="utf-8")))


def load(
    what: str, package: str, name: str, attribute: str, accepts: Callable[[object], TypeGuard[T]]
) -> T:
    """Import the one plugin `name` of `package` and return its `attribute`."""
    module = importlib.import_module(module_name(what, package, name))
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
