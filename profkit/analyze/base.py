"""The contract of an analysis: a pure function whose parameters name what it reads."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from profkit.errors import PluginError
from profkit.hardware import Hardware
from profkit.result import Result
from profkit.schema import TABLES
from profkit.settings import Settings

ByTool = dict[str, pd.DataFrame]
"""Annotate a parameter with this to get the table from every enabled tool that makes it."""

Behaviour = dict[str, Any]
"""Type of the parameter ``behaviour``: what the run was told (model, batch, precision...)."""

_CONFIG = "config"
_OF_THE_RUN = {"hardware": Hardware, "behaviour": Behaviour}


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """A registered analysis; everything but the title is read off the function."""

    title: str
    """Heading in the report."""

    summary: str
    """Docstring of the function: what its numbers mean."""

    tables: tuple[str, ...]
    """Tables that it reads from the first enabled tool that makes them."""

    tables_by_tool: tuple[str, ...]
    """Tables that it reads from every enabled tool that makes them."""

    results: tuple[str, ...]
    """Other analyses whose result it reads."""

    of_the_run: tuple[str, ...]
    """What it reads of the run's configuration: hardware, behaviour, both or nothing."""

    config: type[Settings]
    """Its settings."""

    run: Callable[..., Result] = field(repr=False)
    """The function."""


def analysis(*, title: str) -> Callable[[Callable[..., Result]], Analysis]:
    """Register a function as an analysis; the report shows it under `title`.

    A parameter annotated ``pd.DataFrame`` names a table, one annotated `ByTool` a table of every
    tool, one annotated `Result` another analysis; ``config`` is its settings dataclass. Of the
    run's configuration it gets ``hardware: Hardware`` (peaks; where the configuration leaves it
    to the traces, of the device that they name) and ``behaviour: Behaviour``.
    """

    def register(function: Callable[..., Result]) -> Analysis:
        parameters = inspect.signature(function, eval_str=True).parameters
        kinds = {name: each.annotation for name, each in parameters.items() if name != _CONFIG}
        for name, kind in kinds.items():
            _check(function, name, kind)
        return Analysis(
            title=title,
            summary=inspect.getdoc(function) or "",
            tables=tuple(name for name, kind in kinds.items() if kind is pd.DataFrame),
            tables_by_tool=tuple(name for name, kind in kinds.items() if kind == ByTool),
            results=tuple(name for name, kind in kinds.items() if kind is Result),
            of_the_run=tuple(name for name in kinds if name in _OF_THE_RUN),
            config=_config(function, parameters),
            run=function,
        )

    return register


def _check(function: Callable[..., Any], name: str, kind: object) -> None:
    if name in _OF_THE_RUN:
        if kind != _OF_THE_RUN[name]:
            raise _error(function, f"parameter {name!r} must be a {_OF_THE_RUN[name]}")
        return
    if kind is Result:
        return
    if kind is not pd.DataFrame and kind != ByTool:
        raise _error(function, f"parameter {name!r} must be a pd.DataFrame, ByTool or Result")
    if name not in TABLES:
        raise _error(function, f"unknown table {name!r}; known: {', '.join(TABLES)}")


def _config(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> type[Settings]:
    kind: object = parameters[_CONFIG].annotation if _CONFIG in parameters else None
    if not (isinstance(kind, type) and issubclass(kind, Settings)):
        raise _error(function, "must take `config`, annotated with a subclass of Settings")
    return kind


def _error(function: Callable[..., Any], message: str) -> PluginError:
    code = function.__code__
    return PluginError(f"{code.co_filename}:{code.co_firstlineno}: {function.__name__} {message}")
