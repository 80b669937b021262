"""The report as plain data, before any HTML.

Values stay raw and carry their unit; the page's own script gives them human units, so that the
same number reads the same in a table, on an axis and in a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from profkit.core.result import Abstention
from profkit.report.labelled_values import Item, Number, Value
from profkit.report.verdict_view import RunVerdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """Heading and unit of a table's column."""

    label: str
    unit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows that the page draws, sorts and searches."""

    title: str
    name: str = ""
    """Part of the page's address, where its order and columns are kept; empty for its title."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""
    total: int = 0
    """Rows that the result has; more than there are here if some were cut."""

    links: tuple[str, ...] = ()
    """Where the first cell of each row leads to; empty for nowhere."""

    best: tuple[tuple[int, int], ...] = ()
    """Cells to mark as the best of their column, as row and column."""

    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a cell is not known, by ``row,column``."""

    sums: tuple[tuple[int, float], ...] = ()
    """Columns that add up, with what all rows have, also those that were left out."""

    left_out: int = 0
    """Rows that the analysis left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A drawing of columns of a table; numbers are positions."""

    title: str
    kind: str
    table: int
    x: int
    y: tuple[int, ...]
    color: int = -1
    """Column whose values are the series; -1 for one series per column of `y`."""

    horizontal: bool = False
    log: tuple[str, ...] = ()
    """Axes, x or y, with even steps for multiples, as batch sizes are swept."""

    lines: tuple[str, ...] = ()
    """Series of a scatter that are drawn as lines."""

    choose: int = -1
    """Column of which the reader chooses one value; -1 to draw all rows."""

    band: float = 0.0
    """By how much a factor has to differ from 1 to matter."""

    needs: int = -1
    """Column with how many more repeats would decide; -1 for none."""

    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detail:
    """A part of a drawing that the page unpacks when the reader asks for it."""

    name: str
    block: str
    """Id of the element that holds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """What a module of the page draws, with its data as the analysis left them."""

    name: str
    """Part of the page's address, where the state of the drawing is kept."""

    kind: str
    title: str
    data: Mapping[str, Any] | None
    """None if the page has no room for the drawing."""

    details: tuple[Detail, ...]
    cut: tuple[str, ...]
    """Names of the details for which the page has no room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Packed data of a detail: JSON, compressed by gzip, as base64."""

    id: str
    packed: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A machine that runs were captured on: one line, and everything known."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A longer text under a title: commands, a diff."""

    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A reference with its text; `href` is quoted and relative, or an anchor of the page."""

    text: str
    href: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One finding of one run."""

    severity: str
    message: str
    number: Number
    evidence: tuple[Item, ...]
    advice: str
    run: Link
    section: Link


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingGroup:
    """The same finding in several runs: shown once, with the others behind it."""

    first: Finding
    others: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A capture or another job that failed."""

    run: Link
    tool: str
    """The tool, or the analysis."""

    attempt: int
    status: str
    reason: str
    folder: Link
    """Folder of the capture, or log of the job."""

    stage: str = "capture"
    repeat: int | None = None
    exit_code: int | None = None
    command: str = ""
    log_tail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """Files of one run that a remark is about."""

    run: Link
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """A warning about a tool's captures, or a note of its converter, shown once."""

    tool: str
    text: str
    runs: tuple[RunFiles, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One analysis of one run."""

    anchor: str
    title: str
    lead: str
    details: str
    numbers: tuple[Number, ...]
    findings: tuple[Finding, ...]
    drawings: tuple[int, ...]
    charts: tuple[int, ...]
    tables: tuple[int, ...]
    abstentions: tuple[Abstention, ...]
    file: Link

    is_silent: bool = False
    """Whether there is nothing but abstentions, or what the verdict tells already."""

    is_answer: bool = False
    """Whether it says what the report was made to say: how two runs compare."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankFiles:
    """Links to the files to open of one rank and repeat."""

    rank: str
    repeat: int
    links: tuple[Link, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """A view of a run: analyses of one subject, with the files that go with them."""

    anchor: str
    name: str
    """Part of the page's address."""

    title: str
    sections: tuple[Section, ...]
    opened: tuple[RankFiles, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One repeat of one tool, in the list of a run's captures."""

    tool: str
    repeat: int
    status: str
    started: str
    elapsed_s: float | None
    exit_code: int | None
    reason: str
    folder: Link


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFile:
    """A raw file and its viewers."""

    link: Link
    size_bytes: int
    opens_with: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """Files of one folder of a run; `hidden` more are behind its link."""

    link: Link
    files: tuple[OpenFile, ...]
    hidden: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """What the page's script draws for one part of it, by position."""

    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    drawings: tuple[Drawing, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run with everything in it."""

    anchor: str
    name: str
    label: str
    ran: tuple[str, ...]
    """What ran where, in a few words each."""

    command: str
    statuses: tuple[Item, ...]
    numbers: tuple[Number, ...]
    captures: tuple[Attempt, ...]
    viewable: tuple[OpenFile, ...]
    folders: tuple[Folder, ...]
    configuration: str
    manifest: tuple[tuple[str, tuple[Item, ...]], ...]
    listings: tuple[Listing, ...]
    drawn: Drawn = Drawn()
    topics: tuple[Topic, ...] = ()
    silent: tuple[Section, ...] = ()
    """Sections of nothing but abstentions, out of the way of the others."""

    verdict: RunVerdict | None = None

    def in_menu(self) -> dict[str, str]:
        """Return what the page knows of it before it is opened."""
        return {"anchor": self.anchor, "label": self.label}


@dataclass(frozen=True, kw_only=True, slots=True)
class Across:
    """Results of the analyses of all runs together."""

    anchor: str
    sections: tuple[Section, ...]
    drawn: Drawn = Drawn()
    silent: tuple[Section, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The whole page."""

    title: str
    made: str
    version: str
    machines: tuple[Machine, ...]
    captured: str
    command: str
    notes: tuple[str, ...]
    differences: tuple[str, ...]
    """Facts of machines, versions and sources that are not the same in all captures."""

    overview: Drawn
    """Table 0 compares the runs, table 1 has all their numbers, table 2 is for the charts."""

    across: Across
    findings: tuple[FindingGroup, ...]
    findings_on_top: int
    problems: tuple[Problem, ...]
    remarks: tuple[Remark, ...]
    runs: tuple[Run, ...]
    blocks: tuple[Block, ...]
    rows_per_page: int
    max_bars: int
    cuts: tuple[str, ...] = ()
    """What was cut or left out to keep the page small."""

    opens: int = 0
    """Index of the run that is shown first."""
