"""Reading ``capture.json``, which must never stop anybody: a damaged one is a failed capture."""

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
    """Return the files of the import that the record at `path` is of, with their hashes then.

    None for a capture, the files of which nobody else has.
    """
    return {file: each["sha256"] for file, each in _imported(path).items()}


def untouched_files(path: Path) -> dict[Path, str]:
    """Return the same of those files whose size and time of change are what they were then."""
    return {
        file: each["sha256"]
        for file, each in _imported(path).items()
        if file.is_file() and state_of(file).items() <= each.items()
    }


def state_of(file: Path) -> dict[str, int]:
    """Return what tells, as it does for git, that nobody has written to `file`."""
    state = file.stat()
    return {"size_bytes": state.st_size, "modified_ns": state.st_mtime_ns}


def _imported(path: Path) -> dict[Path, dict[str, Any]]:
    files = read_capture(path).get("files", ())
    return {path.with_name(each["path"]): each for each in files if "sha256" in each}
