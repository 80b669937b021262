"""Writing files so that no reader ever sees half of one."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and move it there, making the folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
