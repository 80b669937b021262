"""``profkit show [RUN|FILE...]``: what limits a run, a comparison, or files never imported."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from profkit.cli import program_end
from profkit.cli.answer import (
    answer,
    fastest,
    foreign_notes,
    notes,
    sweep_sentences,
    verdict_on,
    what_a_step_is,
)
from profkit.cli.run_folders import RUNS, RunFolder, all_runs, is_run, last_selected, run_named
from profkit.core.errors import InputError
from profkit.core.formatting import counted, duration, local_time
from profkit.core.saved_results import COMPARISONS, comparison_file
from profkit.dag.overrides import last_runs
from profkit.planning.model import Pairing
from profkit.report.verdict_text import step_time

_REPORT = Path("results/report.html")
_LISTED = 6


def main(argv: Sequence[str]) -> None:
    """Print the answer on one run, or on files of one."""
    parser = argparse.ArgumentParser(prog="profkit show", description=__doc__)
    about = "name of a run, or how it begins, or its folder; the first or fastest of the last"
    about += " selection if left out. Or traces, memory snapshots, reports of nsys or ncu: ranks of"
    about += " one run"
    parser.add_argument("targets", nargs="*", metavar="run|file", help=about)
    parser.add_argument("--notes", action="store_true", help="list what was not recorded, and why")
    args = parser.parse_args(argv)
    if "" in args.targets:
        raise InputError("the name of a run or a file is empty", hint="profkit ls names the runs")
    paths = [Path(target) for target in args.targets]
    if not paths and not args.notes and (kept := _last_comparison()):
        _print_comparison(kept)
    elif not paths:
        runs = {run.name: run for run in last_selected()}
        _print(of_run(runs[fastest([*runs])], notes_only=args.notes))
        if not args.notes:
            _print(of_others([*runs]))
    elif len(paths) == 1 and (kept := _comparison(args.targets[0])):
        _print_comparison(kept)
    elif all(_is_there(path) and not is_run(path) for path in paths):
        _show_files(paths, notes_only=args.notes)
    elif len(paths) == 1:
        _print(of_run(run_named(args.targets[0]), notes_only=args.notes))
    else:
        missing = next(path for path in paths if not _is_there(path) or is_run(path))
        raise InputError(
            f"{missing}: not a file",
            hint="name one run, or files of one; profkit compare A B compares two runs",
        )


def _is_there(path: Path) -> bool:
    """Say whether there is anything at `path`, a link to nothing too."""
    return path.exists() or path.is_symlink()


def _comparison(name: str) -> Path | None:
    """Return the file of the comparison with that name, of the only one that begins so, or itself.

    A run with a name that begins so comes first.
    """
    files = (comparison_file(name), Path(name))
    if named := [path for path in files if path.parent == COMPARISONS and path.is_file()]:
        return named[0]
    begun = [path for path in COMPARISONS.glob("*.json") if path.name.startswith(name)]
    are_runs = is_run(Path(name)) or any(run.name.startswith(name) for run in all_runs())
    return begun[0] if len(begun) == 1 and not are_runs else None


def _last_comparison() -> Path | None:
    """Return the file of the comparison that the last selection was, None if it was none."""
    with suppress(ValueError):  # several runs, or such as were not captured in pairs
        a, b = last_runs()
        file = comparison_file(Pairing(a=a, b=b, coin=0).name)
        return file if file.is_file() else None
    return None


def _print_comparison(file: Path) -> None:
    # Late: what compares takes longer to load than a run takes to show.
    from profkit.cli.saved_comparison import kept_text  # noqa: PLC0415

    _print(kept_text(file))


def _show_files(paths: Sequence[Path], *, notes_only: bool) -> None:
    # Late: what reads files takes longer to import than to print what is there of a run.
    from profkit.cli.unkept_run import other_kinds, unkept_run  # noqa: PLC0415

    with unkept_run(paths) as (folder, word, used):
        run = RunFolder(folder)
        _print(notes(run) if notes_only else [*answer(run), *foreign_notes(run)])
    if others := "; ".join(other_kinds(paths, word)):
        _print([f"Shown are the files of kind {word}; not shown: {others}"])
    if not notes_only:
        command = shlex.join(["profkit", "import", word, *map(str, _in_short(used))])
        _print([f"All of it as a report: {command}"])


def _in_short(files: Sequence[Path]) -> Sequence[Path]:
    """Return the folder instead of several `files`, if it holds these alone."""
    folder = files[0].parent
    with suppress(OSError):  # what is in a folder may be readable, and not which files it has
        if len(files) > 1 and {*files} == {*folder.iterdir()}:
            return [folder]
    return files


def of_others(names: Sequence[str]) -> Iterator[str]:
    """Yield which run of a selection to take, if that is known, and the step time of each."""
    if len(names) > 1:
        yield from sweep_sentences(names)
        for run in (RunFolder(RUNS / name) for name in names[:_LISTED]):
            step_ns = run.step_time_ns
            yield f"  {'not known' if step_ns is None else duration(step_ns):>9}  {run.name}"
        left = len(names[_LISTED:])
        yield f"{counted(left, 'more run')}: profkit ls" if left else "all runs: profkit ls"


def of_run(run: RunFolder, *, notes_only: bool = False) -> Iterator[str]:
    """Yield the answer on a run of the result tree, or its notes."""
    if notes_only:
        yield from notes(run)
        return
    when = local_time(run.ended)
    found = verdict_on(run)
    step = step_time(found) if found else ""
    if step and run.step_is:
        step += f", from one {run.step_is} to the next"
    yield "  ".join(filter(None, (run.name, when, step, "" if run.status == "ok" else run.status)))
    yield from what_a_step_is(run)
    last = []
    if failed := run.failure:
        # The clock of steps survives what a tool does not; so does the history of a memory that
        # ran out.
        timed = "steps were timed, and no more" if failed.get("places") else "nothing was recorded"
        yield f"{'the program failed' if found else timed}: {failed['reason']}"
        yield f"  what it printed: {run.log(failed)}"
    else:
        yield from program_end.failures(run.captures)
    if found or not failed:
        yield from answer(run)
        if run.left_out:
            others = counted(run.left_out, "more program")
            yield f"This is the first program of the command; {others} made steps as well."
        if run.is_imported:
            yield from foreign_notes(run)
        if count := len(list(notes(run))):
            last.append(f"{counted(count, 'note')} on what was not recorded: profkit show --notes")
    if _REPORT.is_file():
        last.append(f"report: {_REPORT}")
    yield from ["  ".join(last)] if last else []


def _print(lines: Iterator[str] | Sequence[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
