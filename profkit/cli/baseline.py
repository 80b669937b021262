"""``profkit baseline save NAME [RUN]``: keep the numbers of a run, for ``profkit gate``."""

import argparse
import sys
from collections.abc import Sequence

from profkit.cli.measured_run import measured, read_baseline, save_baseline
from profkit.cli.run_folders import last_selected, run_named
from profkit.core.formatting import counted
from profkit.core.saved_results import BASELINES, saved_results


def main(argv: Sequence[str]) -> None:
    """Save a baseline, or list those there are."""
    parser = argparse.ArgumentParser(prog="profkit baseline", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    save = actions.add_parser("save", help=f"keep the numbers of a run in {BASELINES}/NAME.json")
    save.add_argument("name", help="name of the baseline; one of that name is replaced")
    save.add_argument("run", nargs="?", help="name of a run; the newest one if left out")
    actions.add_parser("list", help="list the baselines")
    args = parser.parse_args(argv)
    if args.action == "list":
        for path in saved_results():
            run = read_baseline(str(path))
            sys.stdout.write(f"{path.stem}  {run.name}  {counted(len(run.began), 'repeat')}\n")
        return
    run = measured(run_named(args.run) if args.run else last_selected()[0])
    path = save_baseline(args.name, run)
    sys.stdout.write(f"{run.name}, {counted(len(run.began), 'repeat')}: saved in {path}\n")
