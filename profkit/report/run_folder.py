"""Files of a run's folder: captures, files to open and configuration, with links to them."""

import os
import shlex
from collections import defaultdict

import yaml

from profkit.report import result_tree, view
from profkit.report.shown_run import ShownRun

# Folders whose second level is named after tools.
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


def problem(shown_run: ShownRun, captured: result_tree.Captured) -> view.Problem:
    """Return command, log and reason of a capture that failed."""
    return view.Problem(
        run=shown_run.anchor_link,
        tool=captured.tool,
        repeat=captured.repeat,
        attempt=captured.attempt,
        status=captured.status,
        reason=captured.reason,
        exit_code=captured.exit_code,
        command=shlex.join(captured.command),
        log_tail="\n".join(captured.log_tail)[-_MAX_TAIL:],
        folder=shown_run.file_link(captured.folder),
    )


def failed_job(shown_run: ShownRun, job: result_tree.FailedJob) -> view.Problem:
    """Return the reason why a job after the captures failed, with its log."""
    return view.Problem(
        run=shown_run.anchor_link,
        tool=job.name,
        attempt=job.attempt,
        status=job.status,
        reason=job.reason,
        folder=shown_run.file_link(job.log),
        stage=job.stage,
    )


def captures(shown_run: ShownRun) -> tuple[view.Attempt, ...]:
    """Return how each capture of the run went; of files that were imported that is not known."""
    is_known = not shown_run.run.is_imported
    return tuple(
        view.Attempt(
            tool=capture.tool,
            repeat=capture.repeat,
            status=capture.status,
            started=capture.started,
            elapsed_s=capture.elapsed_s if is_known else None,
            exit_code=capture.exit_code if is_known else None,
            reason=capture.reason,
            folder=shown_run.file_link(capture.folder),
        )
        for capture in shown_run.run.captures
    )


def folders(shown_run: ShownRun, max_files: int) -> tuple[view.Folder, ...]:
    """Return the run's files by folder, those to open first."""
    grouped: dict[str, list[result_tree.File]] = defaultdict(list)
    for file in shown_run.run.files:
        if _belongs(file.path, shown_run.run.selected):
            grouped[os.path.dirname(file.path)].append(file)  # noqa: PTH120
    return tuple(
        view.Folder(
            link=shown_run.file_link(path or "."),
            files=tuple(_file(shown_run, file) for file in grouped[path][:max_files]),
            hidden=max(0, len(grouped[path]) - max_files),
        )
        for path in sorted(grouped, key=_precedence)
    )


def viewable(shown_run: ShownRun, max_files: int) -> tuple[view.OpenFile, ...]:
    """Return the files that a viewer opens: traces, flame graphs; tables are for analyses."""
    files = sorted(shown_run.run.files, key=lambda file: _precedence(file.path))
    found = [
        view.OpenFile(
            link=shown_run.file_link(file.path),
            size_bytes=file.size_bytes,
            opens_with=_opener(file.path),
        )
        for file in files
        if _opener(file.path)
        and not file.path.startswith("tables/")
        and _belongs(file.path, shown_run.run.selected)
    ]
    return tuple(found[:max_files])


def _opener(path: str) -> str:
    return next((text for suffix, text in _OPENS_WITH.items() if path.endswith(suffix)), "")


def _belongs(path: str, selected: result_tree.Selected) -> bool:
    """Say whether the file is of this selection, not of an earlier one with more tools."""
    top, _, rest = path.partition("/")
    return top not in _BY_TOOL or rest.partition("/")[0] in selected.tools


def _precedence(folder: str) -> tuple[int, str]:
    top = folder.partition("/")[0]
    return (_ORDER.index(top) if top in _ORDER else len(_ORDER), folder)


def _file(shown_run: ShownRun, file: result_tree.File) -> view.OpenFile:
    whole = shown_run.file_link(file.path)
    return view.OpenFile(
        link=view.Link(text=whole.text.rpartition("/")[2], href=whole.href),
        size_bytes=file.size_bytes,
        opens_with=_opener(file.path),
    )


def configuration(run: result_tree.Run) -> str:
    """Return the configuration of the run and the settings of its tools, as YAML."""
    plain = {**run.selected.behaviour, "tools": run.selected.tools}
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=80)
