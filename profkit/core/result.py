"""Results: returned by analyses, and all that the report may read."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from profkit.core.atomic_write import write_atomically
from profkit.core.drawing import Drawing
from profkit.core.errors import InputError
from profkit.core.sealed_json import is_damaged, sealed
from profkit.core.verdict import KernelVerdict, MemoryVerdict, Verdict

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1

_ABSURD = 100


class Severity(StrEnum):
    """How much a finding should worry the reader."""

    INFO = "info"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One sentence that the reader should leave with, and the number behind it."""

    severity: Severity
    """How much it should worry the reader."""

    message: str
    """One sentence with the number in it; a share states its whole."""

    metric: str
    """Name of the number, for example ``breakdown.idle_share``."""

    value: float
    """The number, in `unit`."""

    unit: str
    """Unit as in column suffixes: ns, bytes, share (0 to 1), percent, count, ratio..."""

    evidence: dict[str, str | int | float | bool] = field(default_factory=dict)
    """Where it was seen (rank, step, operator, table), so that it can be checked."""

    advice: str = ""
    """What to try, in one or two sentences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Where a number lies, judging by its spread over repeats."""

    low: float
    """Lower end, in the unit of the number."""

    high: float
    """Upper end."""

    confidence: float
    """How often such intervals hold the number, 0 to 1."""

    @property
    def says_nothing(self) -> bool:
        """Whether the upper end is a hundred times the lower one."""
        return self.high > _ABSURD * max(self.low, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One number of a run, comparable between runs."""

    value: float
    """The number, in `unit`; never NaN (what is unknown is an `Abstention`)."""

    unit: str
    """Unit, as in `Finding.unit`."""

    title: str
    """Name of the number, in a few words."""

    better: Literal["lower", "higher", "neither"] = "neither"
    """Which direction is an improvement."""

    interval: Interval | None = None
    """Where the number lies; None if its spread is not known."""

    by_repeat: dict[int, float] = field(default_factory=dict)
    """The number in each repeat, which runs are compared by; empty if repeats have none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows to read, sort and search; the unit of a column is the suffix of its name."""

    title: str
    """Title of the table, naming its rows."""

    columns: tuple[str, ...]
    """Column names with their unit as suffix: ``_ns``, ``_bytes``, ``_share``, ``_percent``..."""

    rows: tuple[tuple[str | int | float | None, ...], ...]
    """Values, None where unknown."""

    note: str = ""
    """Note that a reader needs to read it right, for example on rows left out."""

    sums: dict[str, float] = field(default_factory=dict)
    """Columns whose rows add up to a whole, and that whole: with the rows that were left out."""

    left_out: int = 0
    """Rows for which there was no room."""

    def records(self) -> list[dict[str, Any]]:
        """Return each row as values by the name of their column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


ChartKind: TypeAlias = Literal[
    "bar",
    "stacked_bar",
    "line",
    "scatter",
    "box",
    "sunburst",
    "forest",
    "waterfall",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A drawing of columns of one of the result's tables; the report draws it."""

    kind: ChartKind
    """``stacked_bar`` stacks the groups of `color`, or the columns of `y`.

    ``forest`` draws factors with their intervals: `y` is the factor, its lower and its upper end.
    ``waterfall`` draws changes from one whole to another: `y` is where a bar starts and ends.

    ``sunburst`` draws a tree: `x` holds paths from the root as folded stacks have
    them (names joined by semicolons), the one column of `y` what each row has beyond its children.
    """

    title: str
    """Title of the chart."""

    table: str
    """Key of `Result.tables`."""

    x: str
    """Column on the horizontal axis."""

    y: tuple[str, ...]
    """Column or columns on the vertical axis, all of one unit."""

    color: str = ""
    """Column whose values are the series; empty for one series per column of `y`."""

    horizontal: bool = False
    """Draw bars sideways, for long names."""

    log: tuple[Literal["x", "y"], ...] = ()
    """Axes of numbers with even steps for multiples, as rooflines have them."""

    lines: tuple[str, ...] = ()
    """Values of `color` whose points a ``scatter`` joins, in the order of the rows: limits."""

    choose: str = ""
    """Column of which the reader chooses one value, such as a rank; empty to draw all rows."""

    band: float = 0.0
    """Factors from 1 to 1 + `band` or 1 / (1 + `band`) are too small to matter; of a ``forest``."""

    needs: str = ""
    """Column with how many more repeats would decide; of a ``forest``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Abstention:
    """Something that the analysis could not know, and why: never shown as zero."""

    what: str
    """The unknown quantity."""

    reason: str
    """Why it is unknown, and the remedy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Findings first, then metrics, tables, charts, drawings and abstentions; nothing formatted."""

    findings: tuple[Finding, ...] = ()
    metrics: dict[str, Metric] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    drawings: dict[str, Drawing] = field(default_factory=dict)
    abstentions: tuple[Abstention, ...] = ()
    verdict: Verdict | None = None
    """The verdict on the run, of the analysis ``verdict`` alone..."""

    memory: MemoryVerdict | None = None
    """...and what other analyses contribute to it: about its memory..."""

    kernels: KernelVerdict | None = None
    """...and about the kernels that were measured with hardware counters."""

    @classmethod
    def abstain(cls, what: str, reason: str) -> "Result":
        """Return a result that only says that `what` is not known, and why."""
        return cls(abstentions=(Abstention(what=what, reason=reason),))


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Provenance of a result; ``profkit why`` compares it with that of a result made now."""

    settings: dict[str, Any]
    """Settings of the plugin."""

    modules: dict[str, str]
    """Hash of the normalised source of each module behind it, by dotted name, and of each asset
    that these modules read, by path."""

    packages: dict[str, str]
    """Version of each third-party distribution behind it."""

    inputs: dict[str, str]
    """SHA-256 of each input file, by path."""

    run_parameters: dict[str, Any] = field(default_factory=dict)
    """The parts of the run's configuration that it read: hardware, behaviour, both or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The JSON file that one analysis leaves: its result and its provenance."""

    analysis: str
    title: str
    summary: str
    result: Result
    provenance: Provenance
    attempt: int = 1
    """How often the analysis was tried."""

    status: Literal["ok", "failed"] = "ok"
    """Whether it failed, so that the result is empty and the next run tries again."""

    reason: str = ""
    """Why it failed."""

    schema_version: int = SCHEMA_VERSION


def table(
    rows: "pd.DataFrame",
    *,
    title: str,
    note: str = "",
    limit: int | None = None,
    sums: Sequence[str] = (),
) -> Table:
    """Return the first `limit` rows of a data frame (its columns, not its index) as a `Table`.

    `sums` are the columns whose rows add up to a whole, as far as `rows` has them without a gap.
    """
    kept = rows if limit is None else rows.head(limit)
    left_out = len(rows) - len(kept)
    if left_out:
        note = f"{note} The first {len(kept)} of {len(rows)} rows.".strip()
    columns = [[_plain(value) for value in kept[name].tolist()] for name in kept.columns]
    known = [name for name in sums if name in rows and len(rows) and rows[name].notna().all()]
    return Table(
        title=title,
        columns=tuple(str(name) for name in kept.columns),
        rows=tuple(zip(*columns, strict=True)) if columns else (),
        note=note,
        sums={name: float(rows[name].sum()) for name in known},
        left_out=left_out,
    )


def _plain(value: Any) -> str | int | float | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str) or value is None else str(value)


def write(path: Path, document: Document) -> None:
    """Write `document` as indented JSON."""
    content = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    write_atomically(path, sealed(content))


def read(path: Path, tables: Container[str] | None = None) -> Document:
    """Read the document at `path`; raises `InputError` if it is damaged or of another version.

    With `tables` it has only those of its tables: others are skipped before they take memory.
    """
    content = path.read_bytes()
    try:
        wanted = content if tables is None else _with_tables(content, tables)
        document = msgspec.json.decode(wanted, type=Document)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not a result: {error}", hint="delete it and run again") from None
    if is_damaged(content):
        raise InputError(f"{path}: is damaged or was edited", hint="the next run makes it again")
    if document.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: result of schema version {document.schema_version}, not {SCHEMA_VERSION}",
            hint="delete it and run again",
        )
    return document


def json_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of the files that `write` makes."""
    return msgspec.json.schema(Document)


def _with_tables(content: bytes, tables: Container[str]) -> bytes:
    """Return a document without its other tables."""
    document = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    result = msgspec.json.decode(document["result"], type=dict[str, msgspec.Raw])
    known = msgspec.json.decode(result["tables"], type=dict[str, msgspec.Raw])
    kept = {name: table for name, table in known.items() if name in tables}
    result["tables"] = msgspec.Raw(msgspec.json.encode(kept))
    document["result"] = msgspec.Raw(msgspec.json.encode(result))
    return msgspec.json.encode(document)
