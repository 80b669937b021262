"""What lies in a run's folder: captures, files and configuration, with links to them."""

import os
import shlex
from collections import defaultdict

import yaml

from profkit.report import sources, view
from profkit.report.place import Place

# Folders by what their second level is named after.
_BY_TOOL = ("convert", "capture", "tables")
_ORDER = ("timeline", *_BY_TOOL, "analyze", "logs", "benchmarks")
_MAX_TAIL = 8000

_OPENS_WITH = {
    ".pt.trace.json": "Perfetto, chrome://tracing, TensorBoard",
    ".pt.trace.json.gz": "Perfetto, TensorBoard",
    # All ranks in one, cut to a few steps.
    ".trace.json.gz": "Perfetto, chrome://tracing",
    ".speedscope.json": "speedscope",
    ".nsys-rep": "Nsight Systems",
    ".ncu-rep": "Nsight Compute",
    ".svg": "this browser",
    ".html": "this browser",
    ".parquet": "pandas, DuckDB",
}


def problem(place: Place, captured: sources.Captured) -> view.Problem:
    """Return what is shown about a capture that failed."""
    return view.Problem(
        run=place.here,
        tool=captured.tool,
        repeat=captured.repeat,
        attempt=captured.attempt,
        status=captured.status,
        reason=captured.reason,
        exit_code=captured.exit_code,
        command=shlex.join(captured.command),
        log_tail="\n".join(captured.log_tail)[-_MAX_TAIL:],
        folder=place.link(captured.folder),
    )


def captures(place: Place) -> tuple[view.Attempt, ...]:
    """Return how each capture of the run went."""
    return tuple(
        view.Attempt(
            tool=each.tool,
            repeat=each.repeat,
            status=each.status,
            started=each.started,
            elapsed_s=each.elapsed_s,
            exit_code=each.exit_code,
            reason=each.reason,
            folder=place.link(each.folder),
        )
        for each in place.run.captures
    )


def folders(place: Place, max_files: int) -> tuple[view.Folder, ...]:
    """Return the run's files by folder, what people open first."""
    grouped: dict[str, list[sources.File]] = defaultdict(list)
    for file in place.run.files:
        if _belongs(file.path, place.run.selected):
            grouped[os.path.dirname(file.path)].append(file)  # noqa: PTH120
    return tuple(
        view.Folder(
            link=place.link(path or "."),
            files=tuple(_file(place, each) for each in grouped[path][:max_files]),
            hidden=max(0, len(grouped[path]) - max_files),
        )
        for path in sorted(grouped, key=_precedence)
    )


def viewable(place: Place, max_files: int) -> tuple[view.OpenFile, ...]:
    """Return the files that a viewer opens: traces, flame graphs; tables are for analyses."""
    files = sorted(place.run.files, key=lambda file: _precedence(file.path))
    found = [
        view.OpenFile(
            link=place.link(file.path), size_bytes=file.size_bytes, opens_with=_opener(file.path)
        )
        for file in files
        if _opener(file.path)
        and not file.path.startswith("tables/")
        and _belongs(file.path, place.run.selected)
    ]
    return tuple(found[:max_files])


def _opener(path: str) -> str:
    return next((text for suffix, text in _OPENS_WITH.items() if path.endswith(suffix)), "")


def _belongs(path: str, selected: sources.Selected) -> bool:
    """Tell whether the selection is about this file, or an earlier one that asked for more."""
    top, _, rest = path.partition("/")
    return top not in _BY_TOOL or rest.partition("/")[0] in selected.tools


def _precedence(folder: str) -> tuple[int, str]:
    top = folder.partition("/")[0]
    return (_ORDER.index(top) if top in _ORDER else len(_ORDER), folder)


def _file(place: Place, file: sources.File) -> view.OpenFile:
    whole = place.link(file.path)
    return view.OpenFile(
        link=view.Link(text=whole.text.rpartition("/")[2], href=whole.href),
        size_bytes=file.size_bytes,
        opens_with=_opener(file.path),
    )


def configuration(run: sources.Run) -> str:
    """Return what makes the run itself and what its tools were set to, as YAML."""
    plain = {**run.selected.behaviour, "tools": run.selected.tools}
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=80)
