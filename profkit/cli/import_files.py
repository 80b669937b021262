"""``profkit import KIND PATH... [OVERRIDES]``: make a run of files of a profiler, and report."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.cli import run
from profkit.cli.loudness import add_loudness
from profkit.convert import converter
from profkit.core.errors import InputError
from profkit.core.formatting import counted
from profkit.core.settings import known
from profkit.dag.overrides import is_override
from profkit.planning.imported_files import refuse_empty
from profkit.planning.imported_runs import add_run, find, import_kinds, word_of


def main(argv: Sequence[str]) -> int:
    """Place the files in the result tree and bring the report of them up to date."""
    kinds = import_kinds()
    parser = argparse.ArgumentParser(prog="profkit import", description=__doc__)
    parser.add_argument("kind", help=f"what the files are: {', '.join(kinds)}")
    about = "files, folders of them, and overrides as of `profkit run`"
    parser.add_argument("words", nargs="*", metavar="path|override", help=about)
    parser.add_argument("--name", help="beginning of the run's name; that of the first path")
    add_loudness(parser)
    args = parser.parse_intermixed_args(argv)
    if args.kind not in kinds:
        _refuse(Path(args.kind), "which kind of file it is was not said")
    tool, kind = known("kind of import", args.kind, kinds)
    overrides = [word for word in args.words if is_override(word)]
    paths = [Path(word) for word in args.words if word not in overrides]
    if not paths:
        raise InputError("no file is named", hint="profkit import KIND PATH... [OVERRIDES]")
    try:
        files = find(paths, kind)
    except InputError:
        _refuse(paths[0], f"not a file of the kind {args.kind}", apart_from=args.kind)
        raise
    refuse_empty((file.path for file in files), converter(tool))
    name = args.name or paths[0].resolve().name.partition(".")[0]
    command = shlex.join(["profkit", "import", *argv])
    made = add_run(files, tool, kind, name=name, command=command)
    ranks = len({file.rank for file in files})
    if not args.quiet:
        what = f"{counted(len(files), 'file')} of {counted(ranks, 'rank')}"
        sys.stderr.write(f"the run {made} has {what}\n")
    loudness = ["--quiet"] * args.quiet + ["--verbose"] * args.verbose
    return run.main([f"imports=[{made}]", *overrides, *loudness])


def _refuse(path: Path, what: str, apart_from: str = "") -> None:
    """Raise `InputError`, with the command that imports it, for a file of a kind at `path`."""
    if (word := word_of(path)) not in {"", apart_from}:
        hint = f"profkit import {word} {shlex.quote(str(path))}"
        raise InputError(f"{path}: {what}", hint=hint) from None
