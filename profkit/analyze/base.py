"""The contract of an analysis: a pure function whose parameters name what it reads."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

import pandas as pd

from profkit.analyze.shared.large_table import LargeTable, in_portions
from profkit.core.errors import PluginError
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.tables.schema import TABLES

T = TypeVar("T")

NO_GPU_WORK = "no GPU work was recorded: the run used the CPU only, or CUDA was not traced"
"""Why analyses of GPUs abstain; one reason is given once for all of them."""

ByTool = dict[str, pd.DataFrame]
"""Annotate a parameter with this to get the table from every enabled tool that makes it."""

ByToolIfAny = ByTool | None
"""The same for an optional table: None if no enabled tool makes it."""

ByToolOrOther = Annotated[ByToolIfAny, "one of them has to be there"]
"""The same for tables of which an analysis needs at least one: None if no tool makes it."""


LargeByToolIfAny = dict[str, LargeTable] | None
LargeByToolOrOther = Annotated[LargeByToolIfAny, "one of them has to be there"]
"""`ByToolIfAny` and `ByToolOrOther` of tables that are read some rows at a time."""


class Columns(tuple[str, ...]):  # noqa: SLOT001 (a tuple has no room for slots of its own)
    """Columns of a large table that an analysis reads: the others are left on the disk.

    ``cpu_ops: Annotated[pd.DataFrame, Columns("rank start_ns end_ns")]``, or `ByTool` and its kin
    instead of the frame.
    """

    narrow: frozenset[str]
    """Numbers of rows that take half of the memory in a large table, where they are small enough:
    no product of them may be taken without making them int64."""

    def __new__(cls, names: str, narrow: str = "") -> Self:
        """Split `names`, and those of `narrow` among them, at spaces."""
        made = super().__new__(cls, names.split())
        made.narrow = frozenset(narrow.split())
        return made


class ResultTables(tuple[str, ...]):
    """Tables of other results that an analysis across runs reads: the others take no memory.

    ``memory_peak: Annotated[ByRun | None, ResultTables("phases")]``
    """

    __slots__ = ()

    def __new__(cls, names: str) -> Self:
        """Split `names` at spaces."""
        return super().__new__(cls, names.split())


@dataclass(frozen=True, kw_only=True, slots=True)
class OfTool:
    """The tool and table of a parameter that reads one tool's table, None if it is not enabled.

    ``unprofiled: Annotated[pd.DataFrame | None, OfTool(tool="baseline", table="steps")]``
    """

    tool: str
    table: str
    columns: Columns | None = None


Behaviour = dict[str, Any]
"""Type of the parameter ``behaviour``: the run's settings (model, batch, precision...)."""

ByRun = dict[str, Result]
"""Annotate a parameter of an analysis across runs with this to get the result of every run."""


Mapped = dict[str, Any]
"""Type of the parameter ``mapped``: what the map of an analysis made of each part of its tables.

A part is one or more whole ranks, or some whole steps of a rank with many operators; across runs
it is one run, by whose name it is found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What is known of the recordings of one tool besides their tables."""

    notes: tuple[str, ...] = ()
    """What converting them repaired or lost."""

    warnings: tuple[str, ...] = ()
    """What the captures warned of: the tool, or the machine that was busy meanwhile."""


Recordings = dict[str, Recording]
"""Type of the parameter ``recordings``: by tool, for the tools whose tables are read."""

_CONFIG = "config"
_RECORDINGS = "recordings"
_MAPPED = "mapped"
_IF_THERE = {"": Result | None, "runs": ByRun | None}
_LARGE_BY_TOOL = (LargeByToolIfAny, LargeByToolOrOther)
_BY_TOOL = (ByTool, ByToolIfAny, ByToolOrOther, *_LARGE_BY_TOOL)
_LARGE = (LargeTable, *_LARGE_BY_TOOL)
_FRAMES = (pd.DataFrame, LargeTable)
_RUN_PARAMETERS = {"hardware": Hardware, "behaviour": Behaviour}


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """A registered analysis; everything but the title is read off the function."""

    title: str
    """Heading in the report."""

    summary: str
    """Docstring of the function: what its numbers mean."""

    tables: tuple[str, ...]
    """ResultTables that it reads from the first enabled tool that makes them."""

    columns: Mapping[str, Columns]
    """Columns that it reads of some tables, by any tool; it reads all columns of the others."""

    large_tables: tuple[str, ...] = field(default=(), kw_only=True)
    """Those of `tables` and `tables_by_tool` that it reads some rows at a time."""

    tables_by_tool: tuple[str, ...]
    """ResultTables that it reads from every enabled tool that makes them."""

    optional: tuple[str, ...]
    """Those of `tables_by_tool` that may be missing."""

    alternatives: tuple[str, ...]
    """Those of `optional` of which at least one must exist."""

    tables_of_tools: Mapping[str, OfTool]
    """ResultTables that it reads from one tool if that is enabled, by parameter."""

    results: tuple[str, ...]
    """Other analyses whose result it reads."""

    tables_of_results: Mapping[str, ResultTables] = field(default_factory=dict, kw_only=True)
    """ResultTables that it reads of some of these results; it reads all tables of the others."""

    run_parameters: tuple[str, ...]
    """Parts of the run's configuration that it reads: hardware, behaviour, both or none."""

    config: type[Settings]
    """Its settings."""

    compares_ranks: bool = field(default=False, kw_only=True)
    """Whether it reads the tables of a tool that recorded all ranks, where others left some out."""

    reads_recordings: bool = field(default=False, kw_only=True)
    """Whether it asks what is known of the recordings besides their tables."""

    results_if_there: tuple[str, ...] = field(default=(), kw_only=True)
    """Other analyses whose result it reads if it exists; at least one must exist if it reads
    nothing else."""

    mapped_tables: tuple[str, ...] = field(default=(), kw_only=True)
    """Those of `tables` that `map` reads, a part at a time; `run` takes what that makes of them,
    or the tables whole."""

    map: Callable[..., Any] | None = field(default=None, repr=False, kw_only=True)
    """Function that makes something small of a part of the tables."""

    map_config: type[Settings] = field(default=Settings, kw_only=True)
    """The settings that `map` reads: `config`, or what that inherits."""

    run: Callable[..., Result] = field(repr=False)
    """The function."""

    across: Literal["", "runs"] = ""
    """Whether it works on each run of the selection, or once on all of them."""


def analysis(
    *,
    title: str,
    across: Literal["", "runs"] = "",
    compares_ranks: bool = False,
    mapped_by: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Result]], Analysis]:
    """Register a function as an analysis; the report shows it under `title`.

    With `compares_ranks` it reads a tool that recorded all ranks, if one of those enabled did.

    Each parameter says by name and annotation what the analysis reads:

    - ``pd.DataFrame``: a table, or with `Columns` a part of it, as below;
    - `LargeTable`: the same, read some rows at a time; a frame that is given for it becomes one;
    - `ByTool`: a table of every tool; `ByToolIfAny`: None if no tool makes it; `ByToolOrOther`:
      the same, but at least one table so annotated must exist;
    - `OfTool`: a table of one tool beside that of the traces, None if the tool is not enabled;
    - `Result`: the result of another analysis; ``Result | None``: None if it is not there, but
      at least one analysis so annotated must have one where nothing else is read;
    - ``recordings: Recordings``: what converters and captures noted, by tool;
    - ``hardware: Hardware``: peaks of the configured device, or of the device in the traces;
    - ``behaviour: Behaviour``: the run's settings;
    - ``config``: the analysis' own settings, a dataclass.

    With `mapped_by` not all rows are in memory at one time: that function gets the tables which
    its parameters name, of some ranks or across runs of one run, and the settings. It returns
    something small, such as sums; the parameter ``mapped: Mapped`` has all that it returned. Of
    many ranks, each batch is a job of its own: then it returns frames by name, of numbers and text.
    These jobs run again when its module changes, or a setting of the class of its own ``config``,
    which that of the analysis may inherit: put both into a module apart.

    Across runs, tables have the further Categorical column ``run``, whose categories are the runs
    in the order of the selection. `ByRun` stands for `Result`, with `ResultTables` without all
    other tables of each, ``ByRun | None`` for
    ``Result | None``, and hardware and behaviour are dictionaries by run.
    """

    def register(function: Callable[..., Result]) -> Analysis:
        return _registered(function, title, across, compares_ranks, mapped_by)

    return register


def _registered(
    function: Callable[..., Result],
    title: str,
    across: Literal["", "runs"],
    compares_ranks: bool,
    mapped_by: Callable[..., Any] | None,
) -> Analysis:
    """Return what the signatures say that `function` and its map read."""
    of_map = _annotations(mapped_by) if mapped_by else {}
    annotations = of_map | _annotations(function)
    _check_map(function, of_map, has_mapped=annotations.pop(_MAPPED, None) is not None)
    columns = _marked(annotations, Columns, (*_FRAMES, *_BY_TOOL))
    of_results = _marked(annotations, ResultTables, (ByRun, ByRun | None))
    of_tools = {name: of for name, kind in annotations.items() if (of := _of_tool(kind))}
    kinds = {
        name: _unmarked(kind) if name in (*columns, *of_results) else kind
        for name, kind in annotations.items()
        if name not in of_tools
    }
    for name, kind in kinds.items():
        _check(function, name, kind, across)
    _check_columns(function, columns)
    large = tuple(name for name, kind in kinds.items() if kind in _LARGE)
    return Analysis(
        title=title,
        summary=inspect.getdoc(function) or "",
        tables=tuple(name for name, kind in kinds.items() if kind in _FRAMES),
        large_tables=large,
        columns=columns,
        tables_of_results=of_results,
        tables_by_tool=tuple(name for name, kind in kinds.items() if kind in _BY_TOOL),
        optional=tuple(name for name, kind in kinds.items() if kind in _BY_TOOL[1:]),
        tables_of_tools=of_tools,
        alternatives=tuple(
            name for name, kind in kinds.items() if kind in (ByToolOrOther, LargeByToolOrOther)
        ),
        results=tuple(name for name, kind in kinds.items() if kind in (Result, ByRun)),
        results_if_there=tuple(name for name, kind in kinds.items() if kind == _IF_THERE[across]),
        compares_ranks=compares_ranks,
        reads_recordings=_RECORDINGS in kinds,
        run_parameters=tuple(name for name in kinds if name in _RUN_PARAMETERS),
        config=_config(function),
        mapped_tables=tuple(of_map),
        map=mapped_by,
        map_config=_config(mapped_by) if mapped_by else Settings,
        run=_mapping(function, mapped_by, across) if mapped_by else in_portions(function, large),
        across=across,
    )


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function, eval_str=True).parameters
    return {name: one.annotation for name, one in parameters.items() if name != _CONFIG}


def _check_map(
    function: Callable[..., Any], of_map: Mapping[str, object], *, has_mapped: bool
) -> None:
    """Raise `PluginError` if a map reads what is no table, or only one of the two is there."""
    if bool(of_map) != has_mapped:
        raise _error(function, f"needs both `mapped_by` and the parameter {_MAPPED!r}")
    for name, kind in of_map.items():
        if pd.DataFrame not in (kind, *get_args(kind)[:1]):
            raise _error(function, f"has a map whose parameter {name!r} is no pd.DataFrame")


def _mapping(
    function: Callable[..., Result], mapped_by: Callable[..., Any], across: str
) -> Callable[..., Result]:
    """Return `function` that may also be given the tables that its map reads."""

    def run(*, config: Settings, **inputs: Any) -> Result:
        if _MAPPED not in inputs:
            tables = {name: inputs.pop(name) for name in _annotations(mapped_by)}
            parts = _by_run(tables) if across else {"": tables}
            inputs[_MAPPED] = {
                part: mapped_by(**rows, config=config) for part, rows in parts.items()
            }
        return function(**inputs, config=config)

    return run


def _by_run(tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the tables of each run, without their column ``run``."""
    runs = dict.fromkeys(
        str(run) for rows in tables.values() for run in rows.get("run", pd.Series()).unique()
    )
    return {
        run: {
            name: rows[(rows["run"] == run).to_numpy()].drop(columns="run").reset_index(drop=True)
            for name, rows in tables.items()
        }
        for run in runs
    }


def _marked(
    annotations: Mapping[str, object], marker: type[T], kinds: tuple[object, ...]
) -> dict[str, T]:
    """Return the marker of this type that parameters of some `kinds` are annotated with."""
    return {
        name: own
        for name, kind in annotations.items()
        if get_origin(kind) is Annotated and get_args(kind)[0] in kinds
        for own in get_args(kind)[1:]
        if isinstance(own, marker)
    }


def _unmarked(kind: object) -> object:
    """Return the annotation as if all columns, or all tables, were read."""
    if get_origin(kind) is not Annotated:
        return kind
    plain, *more = get_args(kind)
    others = [marker for marker in more if not isinstance(marker, Columns | ResultTables)]
    return Annotated[plain, *others] if others else plain


def _of_tool(kind: object) -> OfTool | None:
    """Return the tool and table that a parameter is annotated with, None for anything else."""
    markers = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return next((marker for marker in markers if isinstance(marker, OfTool)), None)


def _check_columns(function: Callable[..., Any], columns: Mapping[str, Columns]) -> None:
    for name, chosen in columns.items():
        if unknown := sorted(set(chosen) - set(TABLES[name].names)):
            raise _error(function, f"table {name!r} has no column {', '.join(unknown)}")


def _check(function: Callable[..., Any], name: str, kind: object, across: str) -> None:
    if name in _RUN_PARAMETERS:
        one = _RUN_PARAMETERS[name]
        if kind != (dict[str, one] if across else one):  # type: ignore[valid-type]
            wanted = f"dictionary by run of {one}" if across else one
            raise _error(function, f"parameter {name!r} must be a {wanted}")
        return
    if name == _RECORDINGS and not across:
        if kind != Recordings:
            raise _error(function, f"parameter {name!r} must be a {Recordings}")
        return
    results, called = (ByRun, "ByRun") if across else (Result, "Result")
    if kind in (results, _IF_THERE[across]):
        return
    if kind is not pd.DataFrame and kind not in _BY_TOOL and (across or kind is not LargeTable):
        raise _error(function, f"parameter {name!r} must be a pd.DataFrame, ByTool or {called}")
    if name not in TABLES:
        raise _error(function, f"unknown table {name!r}; known: {', '.join(TABLES)}")


def _config(function: Callable[..., Any]) -> type[Settings]:
    parameters = inspect.signature(function, eval_str=True).parameters
    kind: object = parameters[_CONFIG].annotation if _CONFIG in parameters else None
    if not (isinstance(kind, type) and issubclass(kind, Settings)):
        raise _error(function, "must take `config`, annotated with a subclass of Settings")
    return kind


def _error(function: Callable[..., Any], message: str) -> PluginError:
    code = function.__code__
    return PluginError(f"{code.co_filename}:{code.co_firstlineno}: {function.__name__} {message}")
