"""What Snakemake remembers of the files that it made: the params that it compares with today's."""

from base64 import urlsafe_b64encode
from pathlib import Path

from profkit.dag import snakemake_files

_LONGEST = 254
"""Characters of a name; what is longer is cut into folders, whose names begin with @."""


def has(output: Path) -> bool:
    """Say whether there is a record of `output`; without one, only its age makes it stale."""
    name = urlsafe_b64encode(str(output).encode()).decode()
    *folders, last = (name[start : start + _LONGEST] for start in range(0, len(name), _LONGEST))
    record = Path("metadata", *(f"@{folder}" for folder in folders), last)
    return (snakemake_files.folder() / record).is_file()
