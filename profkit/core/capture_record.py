"""Reading ``capture.json``: a damaged one counts as a failed capture and raises nothing."""

from pathlib import Path
from typing import Any

import msgspec

_NEEDED = ("attempt", "status", "reason", "settings", "workload")


def read_capture(path: Path) -> dict[str, Any]:
    """Return the record at `path`; one that cannot be read counts as a failed attempt.

    The number of that attempt is the file's time in seconds, which no attempt before it had.
    """
    try:
        record = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError:
        record = None
    if isinstance(record, dict) and all(name in record for name in _NEEDED):
        return record
    return {
        "attempt": int(path.stat().st_mtime),
        "status": "error",
        "reason": f"{path.name} is damaged",
        "settings": {},
        "workload": {},
    }


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
    return {path.with_name(entry["path"]): entry for entry in files if "sha256" in entry}
