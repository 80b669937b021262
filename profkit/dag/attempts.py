"""The number of the attempt that a job is, or has to be: what makes Snakemake do it again.

It is part of the job's params, and in the record that the job leaves. What went well keeps its
number. A job that failed, whose files are damaged or gone, a capture that ran files, or had
environment variables, which have changed since, or whose program a person interrupted, gets the
next and so is stale. To ask changes nothing.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profkit.core import program_variables
from profkit.core.capture_record import read_capture, was_cut_short
from profkit.core.checksums import version_like
from profkit.core.job_record import JobRecord, damaged_outputs, read_analysis, read_job
from profkit.core.run_manifest import read_manifest
from profkit.process import parent_watch


@dataclass(frozen=True)
class Attempts:
    """Counts the attempts of captures; each file that they ran is read once."""

    keeps_old_code: bool = False
    """Whether captures of files or variables that have changed since are left as they are."""

    _hashes: dict[tuple[Path, str], str] = field(default_factory=dict)
    _variables: list[str] = field(default_factory=program_variables.of_libraries)
    """Names of those of this process."""

    def number(self, capture: Path, tool: str, beside: Path | None = None) -> int:
        """Return the number of the attempt that the capture at `capture` is, or has to be.

        One whose tool was not available is tried again once it is. What was captured in a pair with
        another, `beside` it, is captured again with that.
        """
        if not capture.exists():
            return 1
        is_settled = self.is_settled(capture, tool)
        if beside is not None:
            is_settled = is_settled and self.is_settled(beside, tool)
        return int(read_capture(capture)["attempt"]) + (not is_settled)

    def is_settled(self, capture: Path, tool: str) -> bool:
        """Say whether there is a capture at `capture` that is not to be made again."""
        if not capture.exists():
            return False
        record = read_capture(capture)
        is_good = record["status"] == "ok" and not was_cut_short(record)
        if not is_good and _is_of_now(record):
            return True
        if record["status"] == "unavailable" and _unavailable(tool):
            return True
        return is_good and (self.keeps_old_code or not self.changes(record))

    def changes_since(self, capture: Path) -> list[str]:
        """Return `changes` since the good capture at `capture`; none if there is no such."""
        record = read_capture(capture) if capture.is_file() else {"status": ""}
        return self.changes(record) if record["status"] == "ok" else []

    def changes(self, record: Mapping[str, Any]) -> list[str]:
        """Return what has happened, in words, to what the program of `record` ran and ran with."""
        found = ((entry["path"], entry["sha256"]) for entry in record.get("sources", ()))
        changes = (self._change(Path(path), digest) for path, digest in found)
        of_variables = program_variables.changes(record, self._variables)
        return [*filter(None, changes), *of_variables]

    def _change(self, path: Path, digest: str) -> str:
        key = path, digest
        if key not in self._hashes:
            self._hashes[key] = version_like(path, digest) if path.is_file() else "gone"
        now = self._hashes[key]
        if now == digest:
            return ""
        if not digest:
            return f"{path} was edited while it was captured"
        return f"{path} is gone" if now == "gone" else f"{path} has changed since it was captured"


def of_conversion(record: Path, needed: Iterable[Path]) -> int:
    """Return the attempt of the conversion that leaves `record`, and `needed` beside it."""
    if not record.is_file():
        return 1
    made = read_job(record)
    is_whole = not damaged_outputs(record, made) and all(path.exists() for path in needed)
    return _next(made, is_whole=is_whole)


def of_map(path: Path) -> int:
    """Return the attempt of the sums of a batch of ranks at `path`."""
    return _next(read_job(path)) if path.is_file() else 1


def of_timeline(record: Path) -> int:
    """Return the attempt of the timeline that leaves `record`."""
    if not record.is_file():
        return 1
    made = read_job(record)
    return _next(made, is_whole=not damaged_outputs(record, made))


def of_analysis(path: Path) -> int:
    """Return the attempt of the analysis whose result is at `path`."""
    return _next(read_analysis(path)) if path.is_file() else 1


def of_manifest(path: Path) -> int:
    """Return the attempt of the manifest at `path`."""
    if not path.is_file():
        return 1
    made = read_manifest(path)
    return int(path.stat().st_mtime) if made is None else made.attempt


def of_report(page: Path, needed: Iterable[Path]) -> int:
    """Return the attempt of the report on `page`, which is made of what is `needed`.

    If its record is gone, it is the time of the page in seconds, which no attempt before it had.
    """
    record = page.with_suffix(".json")
    if record.is_file():
        return _next(read_job(record), is_whole=all(path.exists() for path in needed))
    return int(page.stat().st_mtime) if page.is_file() else 1


def _next(made: JobRecord, *, is_whole: bool = True) -> int:
    return made.attempt + (made.has_failed or not is_whole)


def _is_of_now(record: Mapping[str, Any]) -> bool:
    """Say whether a capture was made in this invocation of the workflow, which tries it once."""
    now = os.environ.get(parent_watch.INVOCATION)
    return bool(now) and record.get("invocation") == now


def _unavailable(tool: str) -> str:
    # Late: only here does reading a plan need a plugin.
    from profkit.capture import tool as load_tool  # noqa: PLC0415

    return load_tool(tool).unavailable_reason()
