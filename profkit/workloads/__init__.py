"""Programs to profile; each module but ``base`` is one, and runs with ``python -m``."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from profkit.core import registry
from profkit.core.settings import checked
from profkit.workloads.base import BaseWorkload


def workloads() -> dict[str, type[BaseWorkload]]:
    """Return the settings class of every workload, by name."""
    return registry.discover(__name__, "Workload", _is_workload)


def workload(name: str) -> type[BaseWorkload]:
    """Import the one workload `name`; raises `ConfigError` if there is none."""
    return registry.load("workload", __name__, name, "Workload", _is_workload)


def workload_settings(behaviour: Mapping[str, Any]) -> BaseWorkload:
    """Return the settings of the workload of a run; raises `ConfigError` if they do not fit."""
    settings = dict(behaviour["workload"])
    return checked("workload", workload(str(settings.pop("name"))), settings)


def _is_workload(plugin: object) -> TypeGuard[type[BaseWorkload]]:
    return isinstance(plugin, type) and issubclass(plugin, BaseWorkload)
