"""Files of caches: a damaged one is no entry, and what it held is made again."""

import hashlib
import os
from pathlib import Path


def write_cached(path: Path, content: bytes) -> None:
    """Write `content` below its hash; not synced to the disk, as a lost entry costs little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(_digest(content) + b"\n" + content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_cached(path: Path) -> bytes | None:
    """Return what was written to `path`; None if there is no entry, or it is damaged."""
    try:
        entry = path.read_bytes()
    except OSError:
        return None
    digest, _, content = entry.partition(b"\n")
    return content if digest == _digest(content) else None


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
