"""``profkit clean [WHAT...]``: what takes room in results/, and its removal with ``--yes``.

raw: recordings that tables were made of; captures, tables, results and the report stay, but to
convert them anew they have to be captured anew. runs: those that are not in the last selection.
caches: plans that were made before. Or the name of a run.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.cli.run_folders import all_runs, run_named
from profkit.core.capture_record import read_capture
from profkit.core.errors import ConfigError, InputError
from profkit.core.formatting import counted, size
from profkit.core.job_record import CONVERSION, read_job
from profkit.core.run_manifest import read_manifest
from profkit.dag import snakemake_locks
from profkit.dag.overrides import last_runs

_CACHES = (Path("results/.profkit/plans"), Path("results/.profkit/job_plans"))
_KEPT = ("capture.json", ".steps.json", ".log")
"""Endings of files of a capture that are small, and say how it went."""

_OF_RUN = (
    *("analyze", "benchmarks", "capture", "config.yaml", "convert", "logs", "manifest.json"),
    *("tables", "timeline"),
)
"""What profkit writes into the folder of a run; all else there is the user's."""

_LISTED = 8
"""Most names that are printed of one kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Something that can be removed."""

    about: str
    paths: tuple[Path, ...]
    """Files, and folders with all that is in them."""

    names: tuple[Path, ...]
    """What people know `paths` by: folders of runs, recordings."""

    strangers: tuple[Path, ...] = ()
    """What lies among it and was not made by profkit: it stays."""

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
            _remove(part)
        sys.stdout.write(f"{'removed ' if args.yes else ''}{what:8} {freed:>10}  {part.about}\n")
        sys.stdout.writelines(f"  {line}\n" for line in _listed(part.names))
        if part.strangers:
            sys.stdout.write("  left alone, as profkit did not make it:\n")
            sys.stdout.writelines(f"    {line}\n" for line in _listed(part.strangers))
    if not args.yes:
        missing = "--yes" if args.what else "what to remove, and --yes"
        sys.stdout.write(f"nothing is removed yet: add {missing}\n")


def _listed(paths: Sequence[Path]) -> Iterator[str]:
    yield from map(str, paths[:_LISTED])
    if more := len(paths[_LISTED:]):
        yield f"and {more:,} more"


def _raw() -> Part:
    recordings = {
        folder: files
        for run in all_runs()
        if _is_made(run.path)
        for folder in run.path.glob("capture/*/rep*")
        if _is_converted(folder) and (files := tuple(_raw_files(folder)))
    }
    paths = tuple(path for files in recordings.values() for path in files)
    about = f"{counted(len(recordings), 'recording')} that tables were made of"
    if len(paths) != len(recordings):
        about += f", {counted(len(paths), 'file')}"
    return Part(about=about, paths=paths, names=tuple(recordings))


def _is_converted(folder: Path) -> bool:
    """Say whether tables were made of the recording in `folder`, which no link leads to."""
    run = folder.parents[2]
    if any(path.is_symlink() for path in (folder, *folder.parents[:2])):
        return False
    converted = run / "tables" / folder.parent.name / CONVERSION
    return converted.is_file() and read_job(converted).status == "ok"


def _raw_files(folder: Path) -> Iterator[Path]:
    """Yield the files that a capture lists as its own, but for those that say how it went."""
    record = folder / "capture.json"
    files = read_capture(record).get("files", ()) if record.is_file() else ()
    for path in sorted(Path(file["path"]) for file in files):
        is_below = not path.is_absolute() and ".." not in path.parts
        if is_below and (folder / path).is_file() and not path.name.endswith(_KEPT):
            yield folder / path


def _other_runs() -> Part:
    selected = last_runs()
    # Where it is not known what is in use, all of it is.
    others = sorted(run.path for run in all_runs() if selected and run.name not in selected)
    made = tuple(path for path in others if _is_made(path))
    about = f"{counted(len(made), 'run')} not in the last selection"
    return _of_runs(made, about, tuple(path for path in others if path not in made))


def _caches() -> Part:
    paths = tuple(path for path in _CACHES if path.is_dir())
    return Part(about="plans that were made before", paths=paths, names=paths)


def _run(name: str) -> Part:
    run = run_named(name)
    if name.rstrip("/") not in (run.name, str(run.path)) and Path(name).resolve() != run.path:
        raise ConfigError(f"{name}: a run is removed by its whole name", hint=run.name)
    if not _is_made(run.path):
        raise InputError(f"{run.path}: profkit did not make this folder", hint="profkit ls")
    return _of_runs((run.path,), f"the run {run.name}")


def _of_runs(runs: Sequence[Path], about: str, strangers: tuple[Path, ...] = ()) -> Part:
    """Return what profkit wrote into the folders `runs`."""
    inside = [path for run in runs for path in sorted(run.iterdir())]
    own = tuple(path for path in inside if path.name in _OF_RUN and not path.is_symlink())
    kept = (*strangers, *(path for path in inside if path not in own))
    return Part(about=about, paths=own, names=tuple(runs), strangers=kept)


def _is_made(folder: Path) -> bool:
    """Say whether profkit made `folder`, which is that of a run by its place or its parts."""
    if folder.is_symlink():
        return False
    manifest = folder / "manifest.json"
    captures = folder.glob("capture/*/rep*")
    is_described = manifest.is_file() and read_manifest(manifest) is not None
    return is_described or any(path.is_dir() for path in captures)


def _remove(part: Part) -> None:
    for path in part.paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # it may have gone with its run
    for folder in part.names:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


_KINDS = {"raw": _raw, "runs": _other_runs, "caches": _caches}
