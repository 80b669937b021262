"""``profkit timeline RUN``: one trace of all ranks for Perfetto, cut to a few steps."""

from collections.abc import Sequence
from pathlib import Path

from profkit.cli.run_folders import run_named
from profkit.timeline import __main__ as job


def main(argv: Sequence[str]) -> None:
    """Write the timeline of a run, found as all commands find one, and say where."""
    job.main(argv, _folder)


def _folder(name: str) -> Path:
    return run_named(name).path
