"""The folder of results: what lies in it is no part of a user's repository."""

from pathlib import Path

from profkit.core.atomic_write import write_atomically

_IGNORED = Path("results/.gitignore")
# By name: a project may have results of its own there, and baselines are there to be committed.
_CONTENT = b"""\
# Written by profkit.
/.gitignore
/.profkit/
/.snakemake/
/bisect/
/comparisons/
/logs/
/report.*
/runs/
/selection/
"""


def prepare() -> None:
    """Make the folder, and let git pass by what profkit writes to it."""
    if not _IGNORED.exists():
        write_atomically(_IGNORED, _CONTENT)
