"""Room on the disk: what the record of a capture needs is kept free, and a full disk is told."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profkit.core.errors import ProfkitError

# More than a record with its log's tail takes, or the steps of some thousand steps.
_KEPT_BYTES = 1 << 20
_KEPT = ".room"
# What a writer leaves free when its last buffer did not fit.
_NOTHING_BYTES = 64 << 10
# Small, and whole up to the moment when the disk was full.
_KEPT_FILES = (".steps.json", ".steps.part", ".error.txt")


@contextmanager
def kept(out: Path) -> Iterator[None]:
    """Keep room in `out` for what is written after the capture.

    Raises `ProfkitError` if there is none.
    """
    try:
        with (out / _KEPT).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _KEPT_BYTES)
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        hint = "make room and run again"
        raise ProfkitError(f"no space is left on the disk of {out}", hint=hint) from None
    finally:
        release(out)


def release(out: Path) -> None:
    """Give back the room kept in `out`, also by a capture that was killed."""
    (out / _KEPT).unlink(missing_ok=True)


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
