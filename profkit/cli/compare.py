"""``profkit compare``: by how much B differs from A, why, and whether that can be said.

A and B are two runs, baselines or recordings that are there already; or two sides, each captured
several times, in pairs whose order a coin decides:

  profkit compare RUN RUN
  profkit compare --a batch=4 --b batch=8 -- python train.py --batch '${batch}'
  profkit compare --a '' --b 'workload.command="python train.py --hidden 64"' -- python train.py
  profkit compare --revisions main,HEAD -- python train.py
  profkit compare --a precision=fp32 --b precision=bf16 --pairs auto

Before --a stand overrides of both sides, as for `profkit run`. An interrupted comparison goes on
where it was. The answer is kept in results/comparisons/, and is a part of the report.

Exit status: 0 if the two were compared, whatever came of it; 1 if one cannot be captured or read; 2
for words that make no sense; 3 if they are not comparable.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from profkit.analyze.shared.paired import BAND, FEWEST_PAIRS
from profkit.cli import run
from profkit.cli.loudness import add_loudness
from profkit.cli.sides_of_words import AUTO, sides_of_words
from profkit.core.errors import ConfigError
from profkit.dag.overrides import selected_when_done
from profkit.planning.cache import load

_MOST_PAIRS = 1000


def main(argv: Sequence[str]) -> int:
    """Compare, and print the answer."""
    own, command = run.split(argv)
    parser = _parser()
    args = parser.parse_intermixed_args(own)
    is_of_runs = args.a is None and args.b is None and args.revisions is None
    if is_of_runs and (len(args.words) != 2 or command):  # noqa: PLR2004 - A and B
        parser.error("name two runs, or two sides with --a and --b, or --revisions A,B")
    if args.revisions is not None and args.revisions.count(",") != 1:
        parser.error(f"--revisions {args.revisions}: name two, as in main,HEAD")
    if args.revisions is not None and not (command or _names_workload(args.words)):
        raise ConfigError(
            "compare: no command is given for the revisions",
            hint="write it behind --: profkit compare --revisions main,HEAD -- python train.py",
        )
    with selected_when_done():
        if not is_of_runs and args.revisions is None:
            if args.a is None or args.b is None:
                parser.error("--a and --b belong together; an empty one, --a '', is as it is")
            load(sides_of_words(args, command)[0].words)
        # Late: it takes longer to load than a mistake in the words takes to be found.
        from profkit.cli import compare_runs, compare_sides  # noqa: PLC0415

        if is_of_runs:
            found = compare_runs.of_words(args)
        else:
            found = compare_sides.compared_sides(args, command)
    return compare_runs.answered(found, is_json=args.json)


def _names_workload(overrides: Iterable[str]) -> bool:
    return any(word.lstrip("+").startswith("workload") for word in overrides)


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
    run.add_cores(parser)
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
