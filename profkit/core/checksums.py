"""Checksums of files: written down when a file is made, compared when it is read."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 1 << 20
"""`hashlib.file_digest` reads a quarter of this at once, and takes half as long again."""

_HASHED_BYTES = 1 << 20
_OF_TIME = " bytes of "


@dataclass(frozen=True, kw_only=True, slots=True)
class Checksum:
    """Size and hash of a file as it was made."""

    size_bytes: int
    sha256: str = ""
    """Empty in records of captures that were made before there were checksums."""


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of the file at `path`: about 0.6 s a GB, from memory."""
    size = min(path.stat().st_size + 1, _READ_BYTES)
    digest, content = hashlib.sha256(), memoryview(bytearray(size))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(content):
            digest.update(content[:size])
    return digest.hexdigest()


def version(path: Path) -> str:
    """Return what is another one for other content at `path`: of a large file, size and time."""
    state = path.stat()
    if state.st_size <= _HASHED_BYTES:
        return sha256(path)
    return f"{state.st_size}{_OF_TIME}{state.st_mtime_ns}"


def version_like(path: Path, made: str) -> str:
    """Return the version or the hash of the file at `path`, whichever `made` is of before."""
    return version(path) if _OF_TIME in made else sha256(path)


def checksum(path: Path) -> Checksum:
    """Return size and hash of the file at `path`."""
    return Checksum(size_bytes=path.stat().st_size, sha256=sha256(path))


def damage(path: Path, made: Checksum) -> str:
    """Return how the file at `path` differs from what was `made`; "" if it does not."""
    if not path.is_file():
        return "is gone"
    if (size := path.stat().st_size) != made.size_bytes:
        return f"is damaged or was edited: it has {size:,} bytes instead of {made.size_bytes:,}"
    if made.sha256 and sha256(path) != made.sha256:
        return "is damaged or was edited: its SHA-256 is not the one that it was made with"
    return ""


def may_be_damaged(path: Path, made: Checksum, recorded_ns: int) -> bool:
    """Say whether the file at `path` has to be looked into: without reading it.

    It need not while it is as large as when it was `made` and no newer than its record, which was
    written at `recorded_ns`.
    """
    if not path.is_file():
        return True
    state = path.stat()
    return state.st_size != made.size_bytes or state.st_mtime_ns > recorded_ns
