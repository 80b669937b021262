"""The number of the attempt that a job is, or has to be: what makes Snakemake do it again.

It is part of the job's params, and in the record that the job leaves. What went well keeps its
number. A capture that failed, or ran files that have changed since, gets the next and so is stale;
so does a job of which files are gone that Snakemake would not miss, as what is made of them is
there. To ask changes nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profkit.core.capture_record import read_capture
from profkit.core.fingerprint import sha256


@dataclass(frozen=True)
class Attempts:
    """Counts the attempts of captures; each file that they ran is read once."""

    keeps_old_code: bool = False
    """Whether captures of files that have changed since are left as they are."""

    _hashes: dict[Path, str] = field(default_factory=dict)

    def number(self, capture: Path, tool: str) -> int:
        """Return the number of the attempt that the capture at `capture` is, or has to be.

        One whose tool was not available is tried again once it is.
        """
        if not capture.is_file():
            return 1
        record = read_capture(capture)
        number, status = int(record["attempt"]), record["status"]
        if status == "unavailable" and _unavailable(tool):
            return number
        is_good = status == "ok" and (self.keeps_old_code or not self.changes(record))
        return number if is_good else number + 1

    def changes(self, record: Mapping[str, Any]) -> list[str]:
        """Return what has happened, in words, to the files that the capture of `record` ran."""
        found = ((entry["path"], entry["sha256"]) for entry in record.get("sources", ()))
        changes = (self._change(Path(path), digest) for path, digest in found)
        return [change for change in changes if change]

    def _change(self, path: Path, digest: str) -> str:
        if path not in self._hashes:
            self._hashes[path] = sha256(path) if path.is_file() else "gone"
        now = self._hashes[path]
        if now == digest:
            return ""
        if not digest:
            return f"{path} was edited while it was captured"
        return f"{path} is gone" if now == "gone" else f"{path} has changed since it was captured"


def remade(output: Path, record: Path, needed: Iterable[Path]) -> int:
    """Return the number of the attempt of the job that leaves `output` and `record`.

    It is the next if a file of `needed` is gone. If `record` is, or is damaged, it is the time of
    `output` in seconds, which no attempt before it had.
    """
    if not output.is_file():
        return 0
    try:
        number = int(json.loads(record.read_bytes()).get("attempt", 0))
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return int(output.stat().st_mtime)
    return number if all(path.exists() for path in needed) else number + 1


def _unavailable(tool: str) -> str:
    # Late: only here does reading a plan need a plugin.
    from profkit.capture import tool as load_tool  # noqa: PLC0415

    return load_tool(tool).unavailable_reason()
