"""``profkit baseline save NAME [RUN]``: keep the numbers of a run, for ``profkit gate``."""

import argparse
import sys
from collections.abc import Sequence

from profkit.cli.measured_run import (
    MeasuredRun,
    is_baseline,
    measured,
    read_baseline,
    save_baseline,
)
from profkit.cli.run_folders import RunFolder, last_selected, run_named
from profkit.core.errors import ConfigError, InputError
from profkit.core.formatting import counted, local_time
from profkit.core.saved_results import BASELINES, saved_results


def main(argv: Sequence[str]) -> None:
    """Save a baseline, or list those there are."""
    parser = argparse.ArgumentParser(prog="profkit baseline", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    save = actions.add_parser("save", help=f"keep the numbers of a run in {BASELINES}/NAME.json")
    save.add_argument("name", help="name of the baseline; one of that name is replaced")
    about = "name of a run; that of the last selection if left out"
    save.add_argument("run", nargs="?", help=about)
    actions.add_parser("list", help="list the baselines")
    args = parser.parse_args(argv)
    if args.action == "list":
        for path in saved_results():
            sys.stdout.write(f"{path.stem}  {_told(read_baseline(str(path)))}\n")
        return
    run = measured(run_named(args.run) if args.run else _selected(args.name))
    replaced = _replaced(args.name)
    path = save_baseline(args.name, run)
    sys.stdout.write(f"{_told(run)}  saved in {path}{replaced}\n")


def _selected(name: str) -> RunFolder:
    """Return the run of the last selection; raises `ConfigError` if it has several."""
    first, *others = last_selected()
    if others:
        raise ConfigError(
            f"baseline save {name}: {len(others) + 1} runs are selected: "
            f"{first.name}, {others[0].name}{', ...' if others[1:] else ''}",
            hint=f"name one: profkit baseline save {name} {others[-1].name}",
        )
    return first


def _told(run: MeasuredRun) -> str:
    """Return which run it is, and when it was captured."""
    began = local_time(min(run.began.values(), default=""))
    return f"{run.name}  {counted(len(run.began), 'repeat')}  {began}".rstrip()


def _replaced(name: str) -> str:
    """Return in words what a baseline of this name was until now, "" if there is none."""
    if not is_baseline(name):
        return ""
    try:
        return f"\nit replaces  {_told(read_baseline(name))}"
    except InputError:
        return "\nit replaces a file that is no baseline"
