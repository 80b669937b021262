"""``profkit clean [WHAT...]``: what takes room in results/, and its removal with ``--yes``.

raw: recordings that tables were made of; captures, tables, results and the report stay, but to
convert them anew they have to be captured anew. runs: those that are not in the last selection.
caches: plans that were made before. Or the name of a run.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.cli.run_folders import RunFolder, all_runs, run_named
from profkit.core.errors import ConfigError
from profkit.core.formatting import counted, size
from profkit.core.job_record import CONVERSION, read_job
from profkit.dag import snakemake_locks
from profkit.dag.overrides import last_runs

_CACHES = (Path("results/.profkit/plans"), Path("results/.profkit/job_plans"))
_KEPT = ("capture.json", ".steps.json", ".log")
"""Endings of files of a capture that are small, and say how it went."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Something that can be removed."""

    about: str
    paths: tuple[Path, ...]
    """Files, and folders with all that is in them."""

    @property
    def size_bytes(self) -> int:
        """Room that removing it frees: a file with another name elsewhere takes none here."""
        files = (file for path in self.paths for file in (path, *path.rglob("*")))
        states = (file.lstat() for file in files if file.is_file() and not file.is_symlink())
        return sum(state.st_size for state in states if state.st_nlink == 1)


def main(argv: Sequence[str]) -> None:
    """Print what could be removed, and how large it is; remove what was chosen."""
    parser = argparse.ArgumentParser(
        prog="profkit clean",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", help="raw, runs, caches, or names of runs; all kinds")
    parser.add_argument("--yes", action="store_true", help="remove it; else it is only listed")
    args = parser.parse_args(argv)
    if args.yes and not args.what:
        raise ConfigError("say what to remove", hint=f"profkit clean {'|'.join(_KINDS)} --yes")
    if args.yes:
        # Held to the end of this process: no run begins meanwhile, and none is at work.
        snakemake_locks.register()
    chosen = args.what or list(_KINDS)
    parts = {what: _KINDS[what]() if what in _KINDS else _run(what) for what in chosen}
    for what, part in parts.items():
        freed = size(part.size_bytes)
        if args.yes:
            _remove(part.paths)
        sys.stdout.write(f"{'removed ' if args.yes else ''}{what:8} {freed:>10}  {part.about}\n")
    if not args.yes:
        sys.stdout.write("nothing is removed yet: add what to remove, and --yes\n")


def _raw() -> Part:
    paths = tuple(path for run in all_runs() for path in _raw_files(run))
    about = f"{counted(len(paths), 'recording')} that tables were made of"
    return Part(about=about, paths=paths)


def _raw_files(run: RunFolder) -> Iterator[Path]:
    for folder in run.path.glob("capture/*/rep*"):
        converted = run.path / "tables" / folder.parent.name / CONVERSION
        if converted.is_file() and read_job(converted).status == "ok":
            yield from (path for path in sorted(folder.iterdir()) if not path.name.endswith(_KEPT))


def _other_runs() -> Part:
    selected = last_runs()
    # Where it is not known what is in use, all of it is.
    paths = tuple(run.path for run in all_runs() if selected and run.name not in selected)
    return Part(about=f"{counted(len(paths), 'run')} not in the last selection", paths=paths)


def _caches() -> Part:
    paths = tuple(path for path in _CACHES if path.is_dir())
    return Part(about="plans that were made before", paths=paths)


def _run(name: str) -> Part:
    run = run_named(name)
    return Part(about=f"the run {run.name}", paths=(run.path,))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


_KINDS = {"raw": _raw, "runs": _other_runs, "caches": _caches}
