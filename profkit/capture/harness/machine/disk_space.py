"""Disk space: reserved for the record of a capture; what to do when disk or folder is gone."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from profkit.core.errors import ProfkitError

# More than a record with its log's tail takes, or the file of some thousand steps.
_RESERVED_BYTES = 1 << 20
_RESERVED = ".room"
# Space that is still free when the last buffer of a writer did not fit.
_FULL_BELOW_BYTES = 64 << 10
# Small, and complete up to the moment when the disk was full.
_KEPT_FILES = (".steps.json", ".steps.part", ".error.txt")


@contextmanager
def reserved(out: Path) -> Iterator[None]:
    """Reserve space in `out` for files that are written after the capture.

    Raises `ProfkitError` if there is none.
    """
    try:
        with (out / _RESERVED).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _RESERVED_BYTES)
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        hint = "make room and run again"
        raise ProfkitError(f"no space is left on the disk of {out}", hint=hint) from None
    finally:
        release(out)


def release(out: Path) -> None:
    """Free the reserved space in `out`, also after a capture that was killed."""
    # There may be a file in the place of the folder.
    with suppress(NotADirectoryError):
        (out / _RESERVED).unlink(missing_ok=True)


class Problem(NamedTuple):
    """Why files may be missing from the folder of a capture, or truncated."""

    reason: str
    would_repeat: bool
    """Whether other captures of the run can be expected to fail alike."""


def problem(out: Path) -> Problem | None:
    """Return what befell the folder `out` or its disk; None if nothing says so.

    A folder that the workload has removed is made again, for the record; a file in its place is
    kept beside it.
    """
    if gone := [folder for folder in (out, *out.parents) if not folder.is_dir()]:
        folder = gone[-1]
        if os.path.lexists(folder):
            folder.rename(folder.with_name(f"{folder.name}.replaced"))
        out.mkdir(parents=True)
        return Problem(f"the workload removed {folder}, where its capture lies", True)
    if shutil.disk_usage(out).free < _FULL_BELOW_BYTES:
        return Problem(f"no space is left on the disk of {out}", False)
    return None


def drop_unfinished(out: Path, labels: list[str]) -> list[str]:
    """Remove the files that ranks were writing when the disk was full, and return their names.

    They may be truncated, which does not show, and the record and the report need the space.
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
