"""How a conversion, a timeline, an analysis or the report went: what the records of all share.

A damaged record counts as that of a failed job and raises nothing.
"""

import os
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from profkit.core.checksums import Checksum, damage, may_be_damaged, sha256
from profkit.core.errors import InputError
from profkit.core.result import Document, Provenance
from profkit.core.sealed_json import is_damaged

Status = Literal["ok", "partial", "damaged", "failed", "unreadable"]
"""Outcome of a job. The next run tries again what is damaged, failed or unreadable.

- partial: a conversion could not read some files, and could not if it were made again
- damaged: files of the captures that it reads are not as they were made
- failed: there is nothing but the reason
- unreadable: the record itself is damaged
"""

CONVERSION = "convert.json"

NOTHING = Provenance(settings={}, modules={}, packages={}, inputs={})
"""Provenance of what was not made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """The fields that the records of all jobs share."""

    provenance: Provenance
    attempt: int = 1
    """How often the job was tried."""

    status: Status = "ok"
    reason: str = ""
    """Why it failed, or what it could not read."""

    tables: Mapping[str, Checksum] = field(default_factory=dict)
    """Checksum of each table of a conversion, by its name."""

    trace: Checksum | None = None
    """Checksum of the trace that a timeline leaves."""

    notes: tuple[dict[str, str], ...] = ()
    """What a conversion repaired or lost: file and text of each."""

    @property
    def has_failed(self) -> bool:
        """Whether the job has to be tried again."""
        return self.status not in ("ok", "partial")


def read_job(path: Path) -> JobRecord:
    """Return the record at `path`; one that cannot be read is that of a failed attempt.

    The number of that attempt is the file's time in seconds, which no attempt before it had.
    """
    content = path.read_bytes()
    try:
        made = msgspec.json.decode(content, type=JobRecord)
    except msgspec.MsgspecError:
        return _damaged(path)
    return _damaged(path) if is_damaged(content) else made


def read_analysis(path: Path) -> JobRecord:
    """Return the record in the result at `path`, all of which has to be readable."""
    content = path.read_bytes()
    try:
        made = msgspec.json.decode(content, type=Document)
    except msgspec.MsgspecError:
        return _damaged(path)
    if is_damaged(content):
        return _damaged(path)
    return JobRecord(
        provenance=made.provenance, attempt=made.attempt, status=made.status, reason=made.reason
    )


def _damaged(path: Path) -> JobRecord:
    return JobRecord(
        provenance=NOTHING,
        attempt=int(path.stat().st_mtime),
        status="unreadable",
        reason="it is damaged",
    )


def damaged_outputs(
    path: Path, made: JobRecord, thoroughly: Container[str] = ()
) -> dict[Path, str]:
    """Return how tables, or the trace, differ from what the job `made`, with its record at `path`.

    By path; only files that are newer than the record, or of another size, are read, and tables
    whose names are to be looked into `thoroughly`.
    """
    recorded_ns = path.stat().st_mtime_ns
    outputs = {path.with_name(f"{name}.parquet"): whole for name, whole in made.tables.items()}
    if made.trace:
        outputs[path.with_suffix(".trace.json.gz")] = made.trace
    return {
        output: found
        for output, whole in outputs.items()
        if (output.stem in thoroughly or may_be_damaged(output, whole, recorded_ns))
        and (found := damage(output, whole))
    }


def verified(table: Path) -> str:
    """Return the SHA-256 of `table`; raises `InputError` if it is not as it was made.

    Then it becomes newer than its record, so that the next run looks into it and makes it again.
    """
    record = table.with_name(CONVERSION)
    made = read_job(record).tables.get(table.stem) if record.is_file() else None
    if made is None:
        return sha256(table)
    if found := damage(table, made):
        with suppress(OSError):  # it may be gone, or another user's
            os.utime(table)
        raise InputError(f"{table}: {found}", hint="the next `profkit run` converts it again")
    return made.sha256
