"""What authors of plugins and notebooks import, and all that they need to know of profkit.

An analysis takes `analysis`, its tables and a `Settings`, and returns a `Result`; a converter is a
function under `converter`; a tool is a `Wrapper` or a `Session` called ``Capture``; a family of
models is a `ModelFamily` called ``Model``; a pattern is a function under `pattern` called
``match``. A notebook asks `load` for a run. Scripts mark their
steps and phases with ``profkit.steps`` and ``profkit.phase``, which are in `profkit` itself.

Names are imported when they are asked for, so that a tool that runs inside a training process
loads no pandas. Take them by ``from profkit.api import ...``: what a plugin is made of are then the
modules behind those names, and it is not stale when others change.
"""

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profkit.analyze.base import (
        Analysis,
        Behaviour,
        ByRun,
        ByTool,
        ByToolIfAny,
        ByToolOrOther,
        Columns,
        Mapped,
        OfTool,
        ResultTables,
        analysis,
    )
    from profkit.capture.base import NullRecorder, Problem, Rank, Recorder, Session, Wrapper
    from profkit.convert.base import Converted, Converter, Importable, Raw, converter
    from profkit.core.drawing import Detail, Drawing
    from profkit.core.errors import ConfigError, InputError, PluginError, ProfkitError
    from profkit.core.hardware import Hardware
    from profkit.core.result import (
        Abstention,
        Chart,
        Finding,
        Interval,
        Metric,
        Result,
        Severity,
        Table,
        table,
    )
    from profkit.core.settings import Settings
    from profkit.patterns.base import Match, Pattern, Step, pattern
    from profkit.tables import columns, schema
    from profkit.tables.loaded_run import LoadedRun, load
    from profkit.workloads.models._saved_bytes import SavedBytes
    from profkit.workloads.models.base import Inputs, ModelFamily, Sample

__all__ = [
    "Abstention",
    "Analysis",
    "Behaviour",
    "ByRun",
    "ByTool",
    "ByToolIfAny",
    "ByToolOrOther",
    "Chart",
    "Columns",
    "ConfigError",
    "Converted",
    "Converter",
    "Detail",
    "Drawing",
    "Finding",
    "Hardware",
    "Importable",
    "InputError",
    "Inputs",
    "Interval",
    "LoadedRun",
    "Mapped",
    "Match",
    "Metric",
    "ModelFamily",
    "NullRecorder",
    "OfTool",
    "Pattern",
    "PluginError",
    "Problem",
    "ProfkitError",
    "Rank",
    "Raw",
    "Recorder",
    "Result",
    "ResultTables",
    "Sample",
    "SavedBytes",
    "Session",
    "Settings",
    "Severity",
    "Step",
    "Table",
    "Wrapper",
    "analysis",
    "columns",
    "converter",
    "load",
    "pattern",
    "schema",
    "table",
]


@cache
def _sources() -> dict[str, str]:
    """Return the module of each name, as the imports above state it for type checkers."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # A type checker that saw it would accept every name.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(__import__(_sources()[name], fromlist=[name]), name)
        return value
