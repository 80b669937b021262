"""The contract of a converter: raw files of one tool in, tables of `profkit.tables.schema` out."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from profkit.core.errors import PluginError
from profkit.tables.schema import TABLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Raw:
    """One raw file of a capture, and where it belongs."""

    path: Path
    """The file."""

    label: str
    """Name of the rank, which the file's name begins with: ``rank0_dp0_tp0_pp0``."""

    rank: int
    """Global rank."""

    repeat: int
    """Repeat of the capture, from 0."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the tool when it recorded the file; nothing of one that was imported."""

    cores: int = 1
    """Processes that may work on this file."""

    helpers: Executor | None = field(default=None, repr=False)
    """All of them but this one, where they were started; else a converter may start them."""

    block_bytes: int = 4 << 20
    """How much of a trace they read at a time, which bounds what memory each of them takes."""

    scratch: Path | None = None
    """Folder for files that are of no use afterwards, on the disk of the tables; None for any."""


Rows: TypeAlias = pa.Table | Iterable[pa.Table] | Callable[[Path], int]
"""One table, see `Converted.tables`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """What one raw file became."""

    tables: Mapping[str, Rows]
    """Tables by name, each with the schema that `profkit.tables.schema.TABLES` says.

    A large one may come in chunks: they are asked for once, and written while the next is made.
    One may also come as a function that leaves it at a path, as a Parquet file, and returns its
    number of rows: another process may have begun with it. Tables are asked for in order.
    """

    notes: tuple[str, ...] = ()
    """What was repaired or lost, one sentence each; shown in the report beside the numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What a file says of its recording, by which files of one run are known."""

    devices: frozenset[str]
    """Models of the devices of its host; none if it does not say."""

    begin_ns: int
    """Unix time of about its first event; -1 if it is unknown."""

    end_ns: int
    """Unix time of about its last event; -1 if it is unknown."""

    host: str = ""
    """Name of the host; empty if it does not say."""

    processes: frozenset[int] = frozenset()
    """Ids of processes that it names; none if it does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Importable:
    """How files that a user brings along become those of a capture."""

    word: str
    """What ``profkit import`` calls them."""

    patterns: tuple[str, ...]
    """Globs of such files in a folder."""

    suffix: str
    """End of their names in a capture; what follows it in the user's name, as .gz, is kept."""

    stated_rank: Callable[[Path], int] = field(repr=False)
    """Returns the rank that a file states, -1 if none; raises `InputError` for another kind."""

    begins: tuple[bytes, ...] = ()
    """First bytes of such files, by which one with another name is known; none if they vary."""

    recorded: Callable[[Path], Recorded] | None = field(default=None, repr=False)
    """Returns when and on what a file was recorded; None if files of this kind do not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Converter:
    """A registered converter: which files it reads, and the tables it always produces."""

    produces: tuple[str, ...]
    """Names of tables, first those that profkit has."""

    pattern: str
    """Glob of the raw files, in the folder of one repeat."""

    run: Callable[[Raw, Path], Converted] = field(repr=False)
    """Reads one file; may leave files that people open in the folder it is given."""

    importable: Importable | None = None
    """How a user's own files come in; None if they cannot."""

    after_oom: bool = False
    """Whether its files describe a capture that ran out of memory; others give no rows then."""

    whole: bool = False
    """Whether a file is all that there is of its rank; else several are parts of one recording."""


def converter(
    *produces: str,
    pattern: str,
    tables: Mapping[str, pa.Schema] = MappingProxyType({}),
    importable: Importable | None = None,
    after_oom: bool = False,
    whole: bool = False,
) -> Callable[[Callable[[Raw, Path], Converted]], Converter]:
    """Register a function that turns one raw file into the tables `produces`.

    It also makes `tables`, which it declares by name: those that profkit itself has not, each made
    with `profkit.tables.columns.table`, with the columns `WHERE` first. The function is called as
    ``function(raw, out)`` for each file that matches `pattern`, each in a process of its own;
    `out` is the folder ``convert/<tool>/`` for files that people open.
    """

    def register(function: Callable[[Raw, Path], Converted]) -> Converter:
        for name, columns in tables.items():
            TABLES.declare(name, columns)
        if unknown := sorted(name for name in produces if name not in TABLES):
            code = function.__code__
            raise PluginError(
                f"{code.co_filename}:{code.co_firstlineno}: unknown tables {unknown}",
                hint=f"known: {', '.join(TABLES)}",
            )
        return Converter(
            produces=(*produces, *tables),
            pattern=pattern,
            run=function,
            importable=importable,
            after_oom=after_oom,
            whole=whole,
        )

    return register
