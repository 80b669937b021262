"""Which Snakemakes of profkit work in this folder, so that a lock of one that was killed is none.

Each holds a lock of the operating system on a file of its own, which ends with the process however
that ends. Snakemake's own locks are files that stay.
"""

import atexit
import fcntl
import os
from pathlib import Path
from typing import IO

FOLDER = Path("results/.profkit/running")
_SNAKEMAKES = Path(".snakemake/locks")

_held: dict[Path, IO[bytes]] = {}


def enter() -> None:
    """Note that this process works here, and take away Snakemake's locks if a dead one left them.

    Two that start at the same moment see each other, and neither takes anything away.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    mine = FOLDER / f"{os.getpid()}.lock"
    _hold(mine)
    others = [path for path in FOLDER.glob("*.lock") if path != mine]
    dead = [path for path in others if not _is_held(path)]
    if len(dead) < len(others):
        return
    for path in [*(_SNAKEMAKES.glob("*.lock") if dead else ()), *dead]:
        path.unlink(missing_ok=True)


def _hold(path: Path) -> None:
    """Hold the lock on `path` until this process ends; it may hold it already."""
    place = path.absolute()
    if place in _held:
        return
    file = place.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[place] = file
    atexit.register(place.unlink, missing_ok=True)


def _is_held(path: Path) -> bool:
    """Say whether a process that lives holds the lock on `path`."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
