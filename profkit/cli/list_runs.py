"""``profkit ls``: the runs in this folder, when they were made, how they went, their step time."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from profkit.cli.bisect_record import searched_runs
from profkit.cli.program_end import exit_status
from profkit.cli.run_folders import RunFolder, all_runs
from profkit.core.capture_record import was_cut_short
from profkit.core.formatting import counted, duration, local_time, size
from profkit.dag.overrides import last_runs

_HEADINGS = ("  run", "ended", "status", "step", "size")


def main(argv: Sequence[str]) -> None:
    """Print one line a run, the newest first; those of the last selection have a star."""
    parser = argparse.ArgumentParser(prog="profkit ls", description=__doc__)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("-q", "--quiet", action="store_true", help="print the names only")
    forms.add_argument("--json", action="store_true", help="print all of it as JSON, times in UTC")
    about = "list those that profkit bisect captured to compare commits as well"
    parser.add_argument("-a", "--all", action="store_true", help=about)
    args = parser.parse_args(argv)
    runs = all_runs()
    searched = set() if args.all else searched_runs() & {run.name for run in runs}
    runs = [run for run in runs if run.name not in searched]
    if args.quiet:
        sys.stdout.writelines(f"{run.name}\n" for run in runs)
        return
    selected = last_runs()
    if args.json:
        sys.stdout.write(f"{json.dumps([_facts(run, selected) for run in runs], indent=1)}\n")
        return
    if not (runs or searched):
        sys.stdout.write("no runs here: profkit profile -- COMMAND makes one\n")
        return
    rows = [
        (
            f"{'*' if run.name in selected else ' '} {run.name}",
            local_time(run.ended),
            _status(run),
            duration(run.step_time_ns) if run.step_time_ns is not None else "",
            size(_size_bytes(run)),
        )
        for run in runs
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for row in (_HEADINGS, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    if searched:
        sys.stdout.write(f"  and {counted(len(searched), 'run')} of profkit bisect: --all\n")


def _facts(run: RunFolder, selected: Sequence[str]) -> dict[str, Any]:
    return {
        "run": run.name,
        "selected": run.name in selected,
        "ended": run.ended,
        "status": _status(run),
        "step_time_ns": run.step_time_ns,
        "size_bytes": _size_bytes(run),
    }


def _size_bytes(run: RunFolder) -> int:
    return sum(path.stat().st_size for path in run.files())


def _status(run: RunFolder) -> str:
    """Return how the captures of a run went, and its program if that failed all the same."""
    if any(map(was_cut_short, run.captures)):
        return "interrupted"
    if run.status != "ok":
        return run.status
    if ended := exit_status(run.captures):
        return f"ok, but exit status {ended}"
    # They are made after all captures, which an interrupt may have kept from being looked at.
    return "ok" if any(run.path.glob("analyze/*.json")) else "ok, no results yet"
