"""``profkit why [PATH]``: say why a result is stale, or that it is fresh."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.core.errors import InputError
from profkit.dag.inputs import Dag
from profkit.dag.overrides import is_override, last_overrides
from profkit.dag.staleness import Staleness
from profkit.planning.cache import load

_REPORT = "results/report.html"


def main(argv: Sequence[str]) -> None:
    """Print one reason a line; raises `InputError` for what is no result."""
    parser = argparse.ArgumentParser(prog="profkit why", description=__doc__)
    parser.add_argument("path", nargs="?", help=f"a file of the result tree; {_REPORT} if left out")
    parser.add_argument("overrides", nargs="*", help="selection; the last one if left out")
    args = parser.parse_intermixed_args(argv)
    words = [args.path or _REPORT, *args.overrides]
    if is_override(words[0]):
        words.insert(0, _REPORT)
    path, overrides = Path(words[0]), words[1:]
    if path.is_absolute():
        if not path.is_relative_to(Path.cwd()):
            raise InputError(f"{path}: not below this folder", hint="run it where results/ lies")
        path = path.relative_to(Path.cwd())
    reasons = Staleness(Dag(load(overrides or last_overrides()))).why(path)
    if not reasons:
        sys.stdout.write(f"{path} is fresh\n")
        return
    sys.stdout.write(f"{path} is stale:\n")
    sys.stdout.writelines(f"  {reason}\n" for reason in reasons)
