"""Room on the disk: what the record of a capture needs is kept free, and a full disk is told."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# More than a record with its log's tail takes, or the steps of some thousand steps.
_KEPT_BYTES = 1 << 20
_KEPT = ".room"
# What a writer leaves free when its last buffer did not fit.
_NOTHING_BYTES = 64 << 10
# Small, and whole up to the moment when the disk was full.
_KEPT_FILES = (".steps.json", ".steps.part", ".error.txt")


@contextmanager
def kept(out: Path) -> Iterator[None]:
    """Keep room in `out` for what is written after the capture; raises OSError if there is none."""
    path = out / _KEPT
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _KEPT_BYTES)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def is_full(folder: Path) -> bool:
    """Say whether next to nothing can be written in `folder`, so that the last files may be cut."""
    return shutil.disk_usage(folder).free < _NOTHING_BYTES


def drop_unfinished(out: Path, labels: list[str]) -> list[str]:
    """Remove what ranks were writing when the disk was full, and return the names.

    None of it can be told from a whole file, and the record and the report need the room.
    """
    unfinished = [
        path
        for label in labels
        for path in sorted(out.glob(f"{label}.*"))
        if not path.name.endswith(_KEPT_FILES)
    ]
    for path in unfinished:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [path.name for path in unfinished]
