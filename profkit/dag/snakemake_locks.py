"""One invocation at a time in a folder, and no locks of Snakemake that a killed one left behind.

A lock of the operating system ends with its process however that ends. Snakemake's own locks are
files that stay, and two Snakemakes that start in the same instant do not see those of each other.
"""

import atexit
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from profkit.core import result_folder
from profkit.core.errors import ProfkitError
from profkit.dag import snakemake_files

LOCK = Path("results/.profkit/running.lock")
"""File that a working Snakemake has locked; it names that, and is empty after a proper end."""

_locked_files: dict[Path, IO[bytes]] = {}


def register() -> None:
    """Lock this folder until this process ends; raises `ProfkitError` if another one works in it.

    Snakemake's locks are removed if the one that had this lock before was killed.
    """
    path = LOCK.absolute()
    if path in _locked_files:
        return
    result_folder.prepare()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ProfkitError(
            f"another run works in this folder: {_holder(path) or 'it has just begun'}",
            hint="wait for its end, or work in another folder",
        ) from None
    if _holder(path):
        for lock in (snakemake_files.FOLDER / "locks").glob("*.lock"):
            lock.unlink(missing_ok=True)
    snakemake_files.bring_over()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
    file.flush()
    _locked_files[path] = file
    atexit.register(_end, file, os.getpid())


def _holder(path: Path) -> str:
    return path.read_text(errors="replace")


def _end(file: IO[bytes], owner: int) -> None:
    """Empty the lock file, which says that this process has ended properly; in forks it has not."""
    if os.getpid() == owner:
        file.truncate(0)
        file.close()
