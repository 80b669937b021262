"""``profkit import KIND PATH...``: make a run of files that a profiler left, and report on it."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.cli import run
from profkit.imports import find, importables, place
from profkit.settings import known


def main(argv: Sequence[str]) -> int:
    """Place the files in the result tree and bring the report of them up to date."""
    kinds = importables()
    parser = argparse.ArgumentParser(prog="profkit import", description=__doc__)
    parser.add_argument("kind", help=f"what the files are: {', '.join(kinds)}")
    parser.add_argument("paths", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--name", help="beginning of the run's name; that of the first path")
    args = parser.parse_args(argv)
    tool, kind = known("kind of import", args.kind, kinds)
    files = find(args.paths, kind)
    name = args.name or args.paths[0].resolve().name.partition(".")[0]
    command = shlex.join(["profkit", "import", *argv])
    made = place(files, tool, kind, name=name, command=command)
    ranks = len({each.rank for each in files})
    sys.stderr.write(f"{len(files)} files of {ranks} ranks are the run {made}\n")
    return run.main([f"imports=[{made}]"])
