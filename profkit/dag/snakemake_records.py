"""What Snakemake remembers of the files that it made: the params that it compares with today's."""

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
