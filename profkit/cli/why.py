"""``profkit why [PATH|RUN...] [OVERRIDES]``: say why results are stale, or that they are fresh."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.core.errors import InputError
from profkit.dag.inputs import REPORT, Dag
from profkit.dag.overrides import is_override, last_overrides
from profkit.dag.recorded_ranks import described
from profkit.dag.staleness import Staleness, check_path
from profkit.planning.cache import load


def main(argv: Sequence[str]) -> None:
    """Print one reason a line; raises `InputError` for what is no result."""
    parser = argparse.ArgumentParser(prog="profkit why", description=__doc__)
    about = f"files of the result tree, or runs ({REPORT} if left out), and the overrides of their "
    about += "selection (the last one if left out), in any order"
    parser.add_argument("words", nargs="*", metavar="path|run|override", help=about)
    words = parser.parse_intermixed_args(argv).words
    overrides = [word for word in words if is_override(word)]
    paths = [_below_here(Path(word)) for word in words if word not in overrides] or [REPORT]
    for path in paths:
        check_path(path)
    dag = Dag(load(overrides or last_overrides()))
    staleness = Staleness(dag)
    recorded = {run.name: [*described(dag, run)] for run in dag.plan.runs}
    for path in paths:
        reasons = staleness.why(path)
        sys.stdout.write(f"{path} is stale:\n" if reasons else f"{path} is fresh\n")
        sys.stdout.writelines(f"  {reason}\n" for reason in reasons)
        # Of a capture by one tool, what that tool recorded.
        lines = [line for name in recorded if name in path.parts for line in recorded[name]]
        own = [line for line in lines if line.partition(" ")[0] in path.parts]
        sys.stdout.writelines(f"  {line}\n" for line in own or lines)


def _below_here(path: Path) -> Path:
    if not path.is_absolute():
        return path
    if not path.is_relative_to(Path.cwd()):
        raise InputError(f"{path}: not below this folder", hint="run it where results/ lies")
    return path.relative_to(Path.cwd())
