"""What Snakemake remembers of the files that it made: the params that it compares with today's."""

import os
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from profkit.dag import snakemake_files

_LONGEST = 254
"""Characters of a name; what is longer is cut into folders, whose names begin with @."""


def has(output: Path) -> bool:
    """Say whether there is a record of `output`; without one, only its age makes it stale."""
    name = urlsafe_b64encode(str(output).encode()).decode()
    *folders, last = (name[start : start + _LONGEST] for start in range(0, len(name), _LONGEST))
    record = Path("metadata", *(f"@{folder}" for folder in folders), last)
    return (snakemake_files.folder() / record).is_file()


def without_pandas(records: Any) -> None:
    """Let the Snakemake of this process write params down without loading pandas for it.

    It would ask of each whether it is a frame, which takes a sixth of its start; ours are plain
    values. `records` is the class that does it.
    """
    records._serialize_param = records._serialize_param_builtin  # noqa: SLF001 - no setting for it


def hashed_once(files: Any) -> None:
    """Let the Snakemake of this process hash a file again only if it has changed.

    It hashes the inputs of a job for each of its outputs: of a conversion, the whole recording for
    each table. `files` is the class that does it.
    """
    hashed = files.checksum
    known: dict[tuple[Any, ...], str | None] = {}

    async def checksum(file: Any, *how: Any, **named: Any) -> str | None:
        facts = None if file.is_storage else _facts(file)
        key = (facts, how, *named.items())
        if facts is None or key not in known:
            known[key] = await hashed(file, *how, **named)
        return known[key]

    files.checksum = checksum


def _facts(path: str) -> tuple[int, ...] | None:
    """Return what is another when a file has changed; None for what is no file.

    The time of the change of the inode is among it: a tool may set the other one back.
    """
    facts = os.stat(path) if os.path.isfile(path) else None  # noqa: PTH113, PTH116 - text
    return facts and (
        *(facts.st_dev, facts.st_ino, facts.st_size),
        *(facts.st_mtime_ns, facts.st_ctime_ns),
    )
