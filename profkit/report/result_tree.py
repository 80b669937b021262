"""Reads the selection and the files of its runs from the result tree."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from profkit.core import result
from profkit.core.capture_record import read_capture
from profkit.core.errors import InputError
from profkit.core.job_record import CONVERSION, JobRecord, read_analysis, read_job

T = TypeVar("T")

_RANK = re.compile(r"rank(\d+)_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selected:
    """One run of the selection, as the plan describes it."""

    run: str
    folder: str
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    analyses: tuple[str, ...] = ()
    behaviour: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    differs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The selection of runs, as the plan describes it."""

    title: str
    runs: tuple[Selected, ...]
    command: str = ""
    overrides: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    across: Selected = Selected(run="all runs", folder="results/selection")
    """Analyses of all runs together, in a folder like that of a run."""
    comparison: str = ""
    """File of the comparison of two runs that were captured in pairs; empty if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file of the user's that a capture ran."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """A ``capture.json``: how one repeat of one tool went."""

    tool: str
    repeat: int
    status: str
    folder: str = ""
    """Folder of the capture within the run; not in the file, it is where the file lies."""

    reason: str = ""
    attempt: int = 1
    command: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    elapsed_s: float | None = None
    exit_code: int | None = None
    warnings: tuple[str, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    log_tail: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    places: tuple[dict[str, Any], ...] = ()
    """Label, host, node and local rank of each rank."""

    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A repair or a loss in one file, noted by its converter."""

    file: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """A ``convert.json``: the conversion of one tool's files."""

    tool: str
    notes: tuple[Note, ...] = ()
    gpus: tuple[str, ...] = ()
    """The name of each kind of GPU that the files describe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedJob:
    """A conversion, timeline or analysis that failed, or could not read all of its files."""

    stage: Literal["conversion", "timeline", "analysis"]
    name: str
    """The tool, or the analysis."""

    status: str
    reason: str
    attempt: int
    log: str
    """Path of its log, relative to the folder of the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of a run; `path` is relative to its folder."""

    path: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run with all that it left."""

    selected: Selected
    manifest: Mapping[str, Any] = field(default_factory=dict)
    captures: tuple[Captured, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    documents: Mapping[str, result.Document] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Folder, from this run's, of analyses whose results lie in another one."""

    files: tuple[File, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()

    @property
    def is_imported(self) -> bool:
        """Whether the run is made of files that somebody else recorded."""
        return "imported" in self.manifest.get("behaviour", {})

    @property
    def rank_names(self) -> dict[int, str]:
        """Name of each rank with its parallel coordinates, by its number.

        A failed capture may not know the coordinates of its ranks: the others overrule it.
        Imported files do not state them, and data-parallel ranks are as well told apart by their
        numbers: ranks of such runs have no names.
        """
        if self.is_imported:
            return {}
        failed_first = sorted(self.captures, key=lambda capture: capture.status == "ok")
        labels = (label for capture in failed_first for label in capture.ranks)
        names = {int(found[1]): label for label in labels if (found := _RANK.match(label))}
        return {} if all(name.endswith("_tp0_pp0") for name in names.values()) else names


def read_selection(path: Path) -> Selection:
    """Read the selection at `path`."""
    selection = _decoded(path, Selection)
    if not selection.runs:
        raise InputError(f"{path}: no run is selected", hint="the overrides sweep over nothing")
    return selection


def read_run(selected: Selected) -> Run:
    """Read the files of the run's folder; missing ones are left out."""
    folder = Path(selected.folder)
    manifest = folder / "manifest.json"
    document = _decoded(manifest, dict[str, Any]) if manifest.is_file() else {}
    return Run(
        selected=selected,
        manifest=document,
        captures=tuple(_captures(folder, selected.tools, document)),
        conversions=tuple(
            _decoded(path, Conversion)
            for tool in selected.tools
            if (path := folder / "tables" / tool / "convert.json").is_file()
        ),
        documents={
            name: result.read(path)
            for name in selected.analyses
            if (path := folder / "analyze" / f"{name}.json").is_file()
        },
        files=tuple(_files(folder)),
        failed_jobs=tuple(_failed_jobs(folder, selected)),
    )


def _failed_jobs(folder: Path, selected: Selected) -> Iterator[FailedJob]:
    """Yield the jobs after the captures whose records say that they failed."""
    for tool in selected.tools:
        converted = folder / "tables" / tool / CONVERSION
        yield from _failed("conversion", tool, converted, read_job, f"convert/{tool}")
        drawn = folder / "timeline" / f"{tool}.json"
        yield from _failed("timeline", tool, drawn, read_job, f"timeline/{tool}")
    for name in selected.analyses:
        found = folder / "analyze" / f"{name}.json"
        yield from _failed("analysis", name, found, read_analysis, f"analyze/{name}")


def _failed(
    stage: Literal["conversion", "timeline", "analysis"],
    name: str,
    path: Path,
    read: Callable[[Path], JobRecord],
    log: str,
) -> Iterator[FailedJob]:
    if path.is_file() and (made := read(path)).status != "ok":
        yield FailedJob(
            stage=stage,
            name=name,
            status=made.status,
            reason=made.reason,
            attempt=made.attempt,
            log=f"logs/{log}.log",
        )


def inputs(run: Run) -> list[Path]:
    """Return the files that `run` was read from."""
    folder = Path(run.selected.folder)
    return [
        *([folder / "manifest.json"] if run.manifest else []),
        *filter(Path.is_file, [folder / "config.yaml"]),
        *(folder / capture.folder / "capture.json" for capture in run.captures),
        *(folder / "tables" / conversion.tool / "convert.json" for conversion in run.conversions),
        *(folder / "analyze" / f"{name}.json" for name in run.documents),
        *(
            path
            for tool in run.selected.tools
            for suffix in (".json", ".trace.json.gz")
            if (path := folder / "timeline" / f"{tool}{suffix}").is_file()
        ),
    ]


def _captures(
    folder: Path, tools: Mapping[str, object], manifest: Mapping[str, Any]
) -> Iterator[Captured]:
    """Yield the captures tool by tool, in the order of repeats.

    Where the manifest names captures, others are left from when more repeats were asked for.
    """
    named = {(capture["tool"], capture["repeat"]) for capture in manifest.get("captures", ())}
    for tool in tools:
        found = (folder / "capture" / tool).glob("rep*/capture.json")
        for path in sorted(found, key=lambda path: (len(path.parent.name), path.parent.name)):
            place = {"folder": path.parent.relative_to(folder).as_posix()}
            captured = msgspec.convert(read_capture(path) | place, Captured)
            if not named or (tool, captured.repeat) in named:
                yield captured


def _files(folder: Path) -> Iterator[File]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield File(path=path.relative_to(folder).as_posix(), size_bytes=path.stat().st_size)


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="name the file that the plan left") from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}", hint="delete it and run again") from None
