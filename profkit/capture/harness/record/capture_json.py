"""``capture.json``: the record of one capture, with its request, times, machine and outcome."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import read_capture
from profkit.core.checksums import checksum
from profkit.core.formatting import without_styles
from profkit.core.sealed_json import sealed

NAME = "capture.json"
LOG = "capture.log"
SCHEMA_VERSION = 1
_TAIL_LINES = 40
_TAIL_BYTES = 64 << 10
# A capture that was killed leaves its reserved disk space, or half a record.
_OURS = re.compile(
    r"rank\d+_dp\d+_tp\d+_pp\d+\..+|capture(\.node\d+|\.begun)?\.(json|log)|capture\.predicted"
    r"|converted\.node\d+|\.room|\.capture\.json\.\d+"
)


def earlier_warning(out: Path) -> list[str]:
    """Return a warning on the outcome of the earlier attempt whose record is still in `out`."""
    path = out / NAME
    if not path.is_file():
        return []
    record = read_capture(path)
    if record["status"] in ("ok", "skipped"):
        return []
    return [f"attempt {record['attempt']} ended as {record['status']}: {record['reason']}"]


def good_siblings(out: Path) -> list[dict[str, Any]]:
    """Return the records of the run's other good captures that have conditions in them."""
    paths = [path for path in out.parents[1].glob(f"*/rep*/{NAME}") if path.parent != out]
    return [
        record
        for record in map(read_capture, sorted(paths))
        if record["status"] == "ok" and record.get("conditions")
    ]


def own_files(out: Path) -> list[Path]:
    """Return the files and folders in `out` that a capture leaves, and no others."""
    return [path for path in out.iterdir() if _OURS.fullmatch(path.name)]


def clear(out: Path) -> None:
    """Remove the files of an earlier attempt from `out`, and no others."""
    for path in own_files(out):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def files(out: Path) -> list[dict[str, str | int]]:
    """Return every file of the capture but its record, by name, with its size and hash."""
    return [
        {"path": str(path.relative_to(out)), **asdict(checksum(path))}
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != NAME
    ]


def tail(log: Path, lines: int = _TAIL_LINES) -> list[str]:
    """Return the last lines of a log, without colours; a large one is not read whole."""
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
        text = without_styles(file.read().decode(errors="replace"))
    return text.splitlines()[-lines:]


def write(out: Path, record: Mapping[str, Any]) -> None:
    """Write the record atomically."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **record}, indent=1) + "\n"
    write_atomically(out / NAME, sealed(text.encode()))
