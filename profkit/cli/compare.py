"""``profkit compare``: by how much B differs from A, why, and whether that can be said.

A and B are two runs, baselines or recordings that are there already; or two sides, each captured
several times, in pairs whose order a coin decides:

  profkit compare RUN RUN
  profkit compare --a batch=4 --b batch=8 -- python train.py --batch '${batch}'
  profkit compare --revisions main,HEAD -- python train.py
  profkit compare --a precision=fp32 --b precision=bf16 --pairs auto

Before --a stand overrides of both sides, as for `profkit run`. An interrupted comparison goes on
where it was. The answer is kept in results/comparisons/, and is a part of the report.

Exit status: 0 if the two were compared, whatever came of it; 1 if one cannot be captured or read; 2
for words that make no sense; 3 if they are not comparable.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from profkit.analyze.shared.paired import BAND, FEWEST_PAIRS
from profkit.cli import run
from profkit.cli.comparison import AUTO, Comparison, as_json, compared_runs, text
from profkit.cli.explained import Why, draw, explained
from profkit.cli.loudness import add_loudness
from profkit.cli.measured_run import MeasuredRun, is_baseline, measured, read_baseline
from profkit.cli.run_folders import RunFolder, run_named
from profkit.core.errors import InputError

NOT_COMPARABLE = 3
"""Exit status if the comparison would mean nothing."""

_MOST_PAIRS = 1000


def main(argv: Sequence[str]) -> int:
    """Compare, and print the answer."""
    own, command = run.split(argv)
    parser = _parser()
    args = parser.parse_intermixed_args(own)
    if args.a is None and args.b is None and args.revisions is None:
        if len(args.words) != 2 or command:  # noqa: PLR2004 - A and B
            parser.error("name two runs, or two sides with --a and --b, or --revisions A,B")
        return _print(_of_runs(args), is_json=args.json)
    if args.revisions is None and (args.a is None or args.b is None):
        parser.error("--a and --b belong together; an empty one, --a '', is as it is")
    # Late: what captures takes longer to load than two runs take to compare.
    from profkit.cli.compare_sides import compared_sides  # noqa: PLC0415

    return _print(compared_sides(args, command), is_json=args.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profkit compare",
        usage="profkit compare A B | [OVERRIDES] --a OVERRIDES --b OVERRIDES [-- COMMAND...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    about = "two runs (their names, how these begin, or folders), baselines or recordings; or "
    parser.add_argument("words", nargs="*", metavar="A B", help=f"{about}overrides of both sides")
    parser.add_argument("--a", metavar="OVERRIDES", help="those of side A alone, in one argument")
    parser.add_argument("--b", metavar="OVERRIDES", help="those of side B alone")
    about = "two commits of the repository here, captured in clean worktrees"
    parser.add_argument("--revisions", metavar="A,B", help=about)
    about = "Python of both sides, or one for each; its environment starts COMMAND"
    parser.add_argument("--python", metavar="PATH[,PATH]", help=about)
    about = f"pairs to capture ({FEWEST_PAIRS} if left out); auto: until the interval is narrow"
    parser.add_argument("--pairs", type=pairs, metavar="N|auto", help=about)
    about = "seed of the coin (0 if left out); another one makes the comparison anew"
    parser.add_argument("--coin", type=int, default=0, metavar="SEED", help=about)
    about = f"change that does not matter, in percent ({BAND:.0%}% if left out)"
    parser.add_argument("--band", type=percent, default=BAND, metavar="PERCENT", help=about)
    parser.add_argument("--all", action="store_true", help="let COMMAND run to its end")
    parser.add_argument("--anyway", action="store_true", help="compare what is not comparable")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    about = "draw the time by module, operator and kernel: red is more in B, blue less, grey noise"
    parser.add_argument("--flame-graph", type=Path, metavar="SVG", help=about)
    parser.add_argument("--cores", type=run.number_of_cores, default=os.cpu_count())
    add_loudness(parser)
    return parser


def percent(text: str) -> float:
    """Return a share; `ValueError` becomes a usage error."""
    share = float(text.removesuffix("%")) / 100
    if not 0 <= share < 1:
        raise ValueError(text)
    return share


def pairs(text: str) -> int:
    """Return a number of pairs, or `AUTO`; `ValueError` becomes a usage error."""
    if text == "auto":
        return AUTO
    if not 0 < int(text) <= _MOST_PAIRS:
        raise ValueError(text)
    return int(text)


def _print(comparison: Comparison, *, is_json: bool) -> int:
    if is_json:
        sys.stdout.write(as_json(comparison))
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(comparison))
    return 0 if comparison.judgements or not comparison.decisive else NOT_COMPARABLE


def _of_runs(args: argparse.Namespace) -> Comparison:
    """Compare two runs, baselines or recordings that are there."""
    with ExitStack() as unkept:
        sides = [unkept.enter_context(_named(name)) for name in args.words]
        before, after = sides
        if before == after:
            hint = "name two runs: profkit ls"
            raise InputError(f"{before.name}: compared with itself", hint=hint)
        comparison = compared_runs(before, after, band=args.band, anyway=args.anyway)
        is_comparable = args.anyway or not comparison.decisive
        if is_comparable:
            comparison = replace(comparison, why=explained(before, after))
            draw(args.flame_graph, before, after)
    if is_comparable and not comparison.judgements and comparison.why == Why():
        hint = "profkit why RUN says the reason"
        raise InputError("nothing was measured in both runs", hint=hint)
    return comparison


@contextmanager
def _named(name: str) -> Iterator[MeasuredRun]:
    """Yield the numbers of a baseline, a run or a recording."""
    if is_baseline(name):
        yield read_baseline(name)
    elif Path(name).is_file():
        # Late: what reads recordings takes longer to load than two runs take to compare.
        from profkit.cli.unkept_run import unkept_run  # noqa: PLC0415

        with unkept_run([Path(name)]) as (folder, _):
            yield measured(RunFolder(folder), needs_steps=False)
    else:
        # Causes can be compared where no step was marked.
        yield measured(run_named(name), needs_steps=False)
