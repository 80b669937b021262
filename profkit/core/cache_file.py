"""Files of caches: a damaged one is no entry, and what it held is made again."""

import hashlib
from pathlib import Path

from profkit.core.atomic_write import write_atomically


def write_cached(path: Path, content: bytes) -> None:
    """Write `content` below its hash; not synced to the disk, as a lost entry costs little."""
    write_atomically(path, _digest(content) + b"\n" + content, synced=False)


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
