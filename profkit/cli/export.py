"""``profkit export [RUN...] --to FOLDER``: copies of recordings, named by run, tool and rank.

The name of a run says model, batch, world size, ZeRO and precision, so that files of several runs
can lie in one folder: ``gpt-train-b4-w8-zero2-torch-fp32-1f0c6a90.torch_profiler.rep0.rank3_...``.
Copied are traces, snapshots and reports of profilers, what was drawn of them, and timelines.
Without a RUN, those of the last selection.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from profkit.cli.run_folders import RunFolder, last_selected, run_named
from profkit.core.capture_record import read_capture
from profkit.core.errors import InputError
from profkit.core.formatting import counted, size

_OURS = ("capture.json", ".steps.json", ".python.json", ".worker.json", ".log", ".part")
"""Endings of files of a capture that are of use to profkit alone."""


def main(argv: Sequence[str]) -> None:
    """Copy the files of the runs that are named, and print how many there are."""
    parser = argparse.ArgumentParser(
        prog="profkit export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="*", help="name of a run, or how it begins; see `profkit ls`")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="made if need be")
    args = parser.parse_args(argv)
    runs = [run_named(name) for name in args.run] or last_selected()
    copies = {name: file for run in runs for name, file in _named(run)}
    if not copies:
        raise InputError(
            f"{', '.join(run.name for run in runs)}: there is no recording to copy",
            hint="profkit clean may have removed them; profkit why says what is captured again",
        )
    try:
        args.to.mkdir(parents=True, exist_ok=True)
        for name, file in copies.items():
            shutil.copyfile(file, args.to / name)
    except OSError as error:
        reason = f"{args.to}: {error.strerror}"
        raise InputError(reason, hint="name a folder that can be written: --to FOLDER") from error
    total = size(sum(file.stat().st_size for file in copies.values()))
    sys.stdout.write(f"{counted(len(copies), 'file')}, {total}, in {args.to}\n")


def _named(run: RunFolder) -> Iterator[tuple[str, Path]]:
    """Yield the files of `run` that people open, by the names of their copies.

    Files of a skipped capture are left out: an earlier capture made them.
    """
    folders = sorted(run.path.glob("capture/*/rep*"))
    made = [folder for folder in folders if not _is_skipped(folder)]
    left_out = {folder.parent.name for folder in folders} - {folder.parent.name for folder in made}
    for folder in made:
        recorded = f"{run.name}.{folder.parent.name}.{folder.name}"
        yield from (file for file in _files(recorded, folder) if not file[0].endswith(_OURS))
    for folder in sorted(run.path.glob("convert/*")):
        if folder.name not in left_out:
            yield from _files(f"{run.name}.{folder.name}", folder)
    for file in sorted(run.path.glob("timeline/*.trace.json.gz")):
        if file.name.partition(".")[0] not in left_out:
            yield f"{run.name}.{file.name.replace('.trace', '.timeline.trace')}", file


def _is_skipped(folder: Path) -> bool:
    record = folder / "capture.json"
    return record.is_file() and read_capture(record)["status"] == "skipped"


def _files(prefix: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files in `folder` and below it, but for those that Snakemake keeps there."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if not file.name.startswith("."):
            yield ".".join([prefix, *file.relative_to(folder).parts]), file
