"""Remove Snakemake's locks that a killed Snakemake left behind in this folder.

Each Snakemake of profkit holds a lock of the operating system on a file of its own, which ends with
the process however that ends. Snakemake's own locks are files that stay.
"""

import atexit
import fcntl
import os
from pathlib import Path
from typing import IO

FOLDER = Path("results/.profkit/running")
_SNAKEMAKE_LOCKS = Path(".snakemake/locks")

_locked_files: dict[Path, IO[bytes]] = {}


def register() -> None:
    """Register this process, and remove Snakemake's locks if a process that died left them.

    Two that start at the same moment see each other, and neither takes anything away.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    mine = FOLDER / f"{os.getpid()}.lock"
    _lock(mine)
    others = [path for path in FOLDER.glob("*.lock") if path != mine]
    dead = [path for path in others if not _is_locked(path)]
    if len(dead) < len(others):
        return
    for path in [*(_SNAKEMAKE_LOCKS.glob("*.lock") if dead else ()), *dead]:
        path.unlink(missing_ok=True)


def _lock(path: Path) -> None:
    """Lock `path` until this process ends, unless it holds the lock already."""
    path = path.absolute()
    if path in _locked_files:
        return
    file = path.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _locked_files[path] = file
    atexit.register(path.unlink, missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Say whether a living process holds the lock on `path`."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
