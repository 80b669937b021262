"""What a batch of ranks became: a folder between the job that converts it and the one that joins.

It holds a record, a folder of tables for each raw file, and the folder `FILES` of what people open.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from profkit.convert._join_parts import Part
from profkit.convert.base import Raw
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.job_record import CONVERSION, read_job
from profkit.core.result import Provenance
from profkit.core.sealed_json import sealed

FILES = "files"
_AGAIN = "the next `profkit run` converts its ranks again"


def write_parts(batch: Path, parts: Iterable[Part], provenance: Provenance, attempt: int) -> None:
    """Leave the record of a `batch`, whose `parts` lie in it."""
    made: dict[str, Any] = {
        str(part.raw.path): {
            "folder": part.folder and part.folder.name,
            "rows": part.rows,
            "ranks": sorted(part.found_ranks),
            "notes": part.notes,
        }
        for part in parts
    }
    about = {"attempt": attempt, "status": "ok", "reason": "", "provenance": provenance}
    write_atomically(batch / CONVERSION, sealed(msgspec.json.encode({**about, "parts": made})))


def read_parts(raws: Sequence[Raw], batches: Iterable[Path]) -> list[Part]:
    """Return what the `batches` made of the raw files, in order of these."""
    made = {path: (batch, found) for batch in batches for path, found in _parts(batch)}
    if missing := [raw.path for raw in raws if str(raw.path) not in made]:
        raise InputError(f"{missing[0]}: no batch of ranks has converted it", hint=_AGAIN)
    return [_part(raw, *made[str(raw.path)]) for raw in raws]


def converted_files(batch: Path) -> list[Path]:
    """Return the raw files that `batch` was made of; some may be gone."""
    return [Path(path) for path, _ in _parts(batch)]


def _parts(batch: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    record = batch / CONVERSION
    made = read_job(record)
    if made.has_failed:
        raise InputError(f"{record}: {made.reason}", hint=_AGAIN)
    yield from json.loads(record.read_bytes())["parts"].items()


def _part(raw: Raw, batch: Path, found: dict[str, Any]) -> Part:
    folder = found["folder"] and batch / found["folder"]
    return Part(
        raw=raw,
        folder=folder,
        rows=found["rows"],
        found_ranks=frozenset(found["ranks"]),
        notes=tuple(found["notes"]),
    )


def copy_files(batches: Iterable[Path], files: Path) -> None:
    """Copy to `files` what the batches made for people to open."""
    for batch in batches:
        shutil.copytree(batch / FILES, files, dirs_exist_ok=True)
