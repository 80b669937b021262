"""Two sides that are captured to be compared: in pairs, until enough can be said."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from profkit.analyze.shared.paired import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    STOPPED_CONFIDENCE,
    narrow_enough,
)
from profkit.cli import profile, run
from profkit.cli.captured_pairs import CapturedPairs, captured_pairs
from profkit.cli.comparison import AUTO, Comparison, compared_runs, judge, measured_change
from profkit.cli.explained import draw, explained
from profkit.cli.git_revisions import revision, worktrees
from profkit.cli.measured_run import METRICS, measured
from profkit.cli.run_folders import RunFolder
from profkit.cli.saved_comparison import keep
from profkit.core.errors import ConfigError, InputError, ProfkitError
from profkit.dag.inputs import REPORT, Dag
from profkit.planning.cache import load
from profkit.planning.command_line import as_override
from profkit.planning.sides import Sides, overrides_in

_CONFIDENCE = 0.95
_STEP_TIME = METRICS["step_time"]


def compared_sides(args: argparse.Namespace, command: Sequence[str]) -> Comparison:
    """Capture both sides in pairs, say why they differ if they do, and keep the answer."""
    if args.revisions is None:
        return _compared(args, *sides_of_words(args, command))
    names = args.revisions.split(",")
    if len(names) != 2:  # noqa: PLR2004 - A and B
        raise InputError(f"--revisions {args.revisions}: name two, as in main,HEAD")
    with worktrees(*map(revision, names)) as folders:
        return _compared(args, *sides_of_words(args, command, folders))


def _compared(args: argparse.Namespace, sides: Sides, wanted: int) -> Comparison:
    is_auto = wanted == AUTO
    # What ends where the interval is narrow ends sooner where the spread happens to look small.
    confidence = STOPPED_CONFIDENCE if is_auto else _CONFIDENCE
    captured = _captured(sides, wanted, args)
    found = compared_runs(
        captured.before,
        captured.after,
        band=args.band,
        confidence=confidence,
        anyway=args.anyway,
    )
    # Without a difference there is nothing to explain.
    whole = sides if found.differs else sides.with_common("tool=[]")
    dag = Dag(load(whole.with_common(f"repeats={captured.count}").words))
    pairing = captured.pairing
    targets = [file for one in dag.plan.runs for file in dag.run_files(one)]
    if not run.make(dag, targets, args):
        raise ProfkitError("not all of the comparison could be made", hint="see above")
    before, after = (
        measured(RunFolder(Path("results/runs", name))) for name in (pairing.a, pairing.b)
    )
    found = compared_runs(before, after, band=args.band, confidence=confidence, anyway=args.anyway)
    if found.differs:
        found = replace(found, why=explained(before, after))
        draw(args.flame_graph, before, after)
    found = replace(found, pairing=pairing)
    keep(pairing.name, found)
    if not run.make(dag, [str(REPORT)], args):
        raise ProfkitError("the report could not be made", hint="see above")
    if not (args.quiet or args.json):
        sys.stderr.write(f"report: {REPORT}; again: profkit show {pairing.name}\n")
    return found


def sides_of_words(
    args: argparse.Namespace, command: Sequence[str], folders: Sequence[Path] = ()
) -> tuple[Sides, int]:
    """Return the sides that the command line describes, and how many pairs are wanted.

    `folders` are those in which the sides start, if they are not this one.
    """
    a, b = (overrides_in(f"--{side}", getattr(args, side) or "") for side in ("a", "b"))
    given, wanted = _without_repeats(args)
    if folders:
        a, b = (
            (f"launcher.cwd={folder}", *own) for folder, own in zip(folders, (a, b), strict=True)
        )
    if not command:
        a, b = (
            (*own, *([f"launcher.python={python}"] if python else []))
            for own, python in zip((a, b), _pythons(args), strict=True)
        )
        return Sides(common=tuple(given), a=a, b=b, coin=args.coin), wanted
    chosen = profile.overrides(given, command, is_whole=args.all, is_thorough=False)
    common = [word for word in chosen[:-1] if word != "repeats=1"]
    everything = [*given, *a, *b]
    commands = [as_override(_started_by(command, python), everything) for python in _pythons(args)]
    if commands[0] == commands[1]:
        common.append(commands[0])
    else:
        a, b = (*a, commands[0]), (*b, commands[1])
    return Sides(common=tuple(common), a=a, b=b, coin=args.coin), wanted


def _without_repeats(args: argparse.Namespace) -> tuple[list[str], int]:
    """Return the overrides of both sides, and the number of pairs: ``--pairs`` or ``repeats``."""
    given = [word for word in args.words if word.partition("=")[0] != "repeats"]
    named = [word.partition("=")[2] for word in args.words if word.startswith("repeats=")]
    if args.pairs is not None:
        return given, args.pairs
    if not named:
        return given, FEWEST_PAIRS
    if named[-1] != "auto" and not named[-1].isdigit():
        raise ConfigError(f"repeats={named[-1]}: a number of pairs, or auto")
    return given, AUTO if named[-1] == "auto" else int(named[-1])


def _pythons(args: argparse.Namespace) -> tuple[str, str]:
    """Return the Python of each side; empty for that of this environment."""
    if not args.python:
        return "", ""
    named = args.python.split(",")
    if len(named) > 2:  # noqa: PLR2004 - A and B
        raise InputError(f"--python {args.python}: name one, or one for each side")
    return named[0], named[-1]


def _started_by(command: Sequence[str], python: str) -> list[str]:
    """Return `command` with the program of the environment of `python` that it begins with."""
    if not python:
        return [*command]
    program = Path(python).absolute().parent / Path(command[0]).name
    if not program.is_file():
        raise InputError(f"--python {python}: {program} is not there", hint=shlex.join(command))
    return [str(program), *command[1:]]


def _captured(sides: Sides, wanted: int, args: argparse.Namespace) -> CapturedPairs:
    """Capture as many pairs as wanted, with a line on each of them."""
    most = MOST_PAIRS if wanted == AUTO else wanted
    found = None
    for found in captured_pairs(sides, most, args):
        if not args.quiet:
            sys.stderr.write(f"{_progress(found, most, args.band, is_auto=wanted == AUTO)}\n")
        if wanted == AUTO and found.count >= FEWEST_PAIRS and _is_narrow(found, args.band):
            break
    assert found is not None  # noqa: S101 - there is at least one pair
    return found


def _is_narrow(found: CapturedPairs, band: float) -> bool:
    before, after = (one.metrics[_STEP_TIME].by_repeat for one in (found.before, found.after))
    logs = np.log([after[pair] / before[pair] for pair in sorted(before) if pair in after])
    return bool(narrow_enough(logs, band=band))


def _progress(found: CapturedPairs, most: int, band: float, *, is_auto: bool) -> str:
    """Return how many pairs there are, and the present interval."""
    pairs = f"pair {found.count} of {'at most ' if is_auto else ''}{most}"
    confidence = STOPPED_CONFIDENCE if is_auto else _CONFIDENCE
    judgement = judge(found.before, found.after, band, confidence)["step_time"]
    change = f"step time {judgement.ratio.ratio - 1:+.1%}"
    if judgement.ratio.interval is None:
        return f"{pairs}: {change}"
    return f"{pairs}: {change} ({measured_change(judgement).rpartition(', ')[0]})"
