"""Writing files so that no reader ever sees half of one, not even after the machine went down."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes, *, synced: bool = True) -> None:
    """Write `content` beside `path` and move it there, making the folder if need be.

    What may be lost with the machine, as entries of caches may, need not be `synced` to the disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if synced:
                file.flush()
                # A file system may make the new name durable before the content.
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if synced:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
