"""Reading ``capture.json``: a damaged one counts as a failed capture and raises nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from profkit.core.checksums import Checksum, damage
from profkit.core.sealed_json import is_damaged

CONVERTED = "converted.node"
"""Beginning of the folders of a capture with what a host made of raw files in its scratch."""


FAILED_AFTER = "The program failed after what was recorded: "
"""Beginning of the warning of a capture that was kept although its program failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fields:
    """The fields that are read again: with one of another type, a record is damaged."""

    attempt: int
    status: str
    reason: str
    settings: dict[str, Any]
    workload: dict[str, Any]
    tool: str = ""
    repeat: int = 0
    command: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    elapsed_s: float | None = None
    exit_code: int | None = None
    interrupted: bool = False
    ranks: tuple[str, ...] = ()
    files: tuple["_File", ...] = ()
    sources: tuple[dict[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    log_tail: tuple[str, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: str
    size_bytes: int
    sha256: str = ""
    modified_ns: int = 0
    """When an imported file was last changed; 0 for a file that was captured."""


def read_capture(path: Path) -> dict[str, Any]:
    """Return the record at `path`; one that cannot be read counts as a failed attempt.

    The number of that attempt is the file's time in seconds, which no attempt before it had.
    """
    try:
        content = path.read_bytes()
        record: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        msgspec.convert(record, _Fields)
    except (IsADirectoryError, msgspec.MsgspecError):
        return _damaged(path)
    return _damaged(path) if is_damaged(content) else record


def _damaged(path: Path) -> dict[str, Any]:
    repeat = path.parent.name.removeprefix("rep")
    return {
        "tool": path.parent.parent.name,
        "repeat": int(repeat) if repeat.isdigit() else 0,
        "attempt": int(path.stat().st_mtime),
        "status": "error",
        "reason": f"{path.name} is damaged",
        "settings": {},
        "workload": {},
        "ranks": [],
        "files": [],
    }


def was_cut_short(record: Mapping[str, Any]) -> bool:
    """Say whether the person who waited for the program of a capture made it fail by Ctrl-C.

    One that ends well on that, as servers do, has all that it was to have.
    """
    return bool(record.get("interrupted") and record.get("exit_code"))


def capture_warnings(path: Path) -> tuple[str, ...]:
    """Return what the capture with the record at `path` warned of: the tool, and its machine."""
    record = read_capture(path)
    of_machine = record.get("conditions", {}).get("warnings", ())
    return (*record.get("warnings", ()), *map(str, of_machine))


def imported_files(path: Path) -> dict[Path, str]:
    """Return the imported files that the record at `path` lists, with their hashes at the import.

    A capture of profkit's own has none.
    """
    return {file: entry["sha256"] for file, entry in _imported(path).items()}


def untouched_files(path: Path) -> dict[Path, str]:
    """Return the imported files whose size and time of change are those of the import."""
    return {
        file: entry["sha256"]
        for file, entry in _imported(path).items()
        if file.is_file() and state_of(file).items() <= entry.items()
    }


def state_of(file: Path) -> dict[str, int]:
    """Return size and time of change of `file`; while both stay, as for git, so did the file."""
    state = file.stat()
    return {"size_bytes": state.st_size, "modified_ns": state.st_mtime_ns}


def _imported(path: Path) -> dict[Path, dict[str, Any]]:
    files = read_capture(path).get("files", ())
    return {path.with_name(entry["path"]): entry for entry in files if "modified_ns" in entry}


def damaged_files(path: Path) -> dict[Path, str]:
    """Return how files of the capture with the record at `path` differ from what it captured.

    Imported files are left out, as they are the user's own, and logs, as nothing reads them.
    """
    files = msgspec.convert(read_capture(path).get("files", ()), tuple[_File, ...])
    captured = {
        path.parent / file.path: file
        for file in files
        if not (file.modified_ns or file.path.endswith(".log"))
    }
    return {
        name: found
        for name, file in captured.items()
        if (found := damage(name, Checksum(size_bytes=file.size_bytes, sha256=file.sha256)))
    }
