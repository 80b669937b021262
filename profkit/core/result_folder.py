"""The folder of results: what lies in it is no part of a user's repository."""

from pathlib import Path

from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError

_KEPT = Path("results/.profkit")
_REPORTS = tuple(Path(f"results/report.{kind}") for kind in ("html", "json", "md"))
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
    """Make the folder, and let git pass by what profkit writes to it.

    Raises `InputError` for a folder of somebody else's, with files that would be replaced.
    """
    if not _KEPT.exists() and (taken := [*filter(_is_anothers, _REPORTS)]):
        raise InputError(
            f"{', '.join(map(str, taken))}: not written by profkit, which would replace it",
            hint="move it, or work in another folder: mkdir profiling; cd profiling",
        )
    if not _IGNORED.exists():
        write_atomically(_IGNORED, _CONTENT)


def _is_anothers(report: Path) -> bool:
    return report.is_file() and b"profkit" not in report.read_bytes()
