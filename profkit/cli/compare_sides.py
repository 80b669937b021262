"""Two sides that are captured to be compared: in pairs, until enough can be said."""

import argparse
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
from profkit.cli import run
from profkit.cli.captured_pairs import CapturedPairs, captured_pairs
from profkit.cli.comparison import Comparison, compared_runs, judge, measured_change
from profkit.cli.explained import EXPLAINED, draw, explained_of
from profkit.cli.git_revisions import revision, worktrees
from profkit.cli.measured_run import METRICS, measured
from profkit.cli.run_folders import RunFolder
from profkit.cli.saved_comparison import keep
from profkit.cli.sides_of_words import AUTO, sides_of_words
from profkit.core.errors import ProfkitError
from profkit.dag.inputs import REPORT, Dag
from profkit.planning.cache import load
from profkit.planning.sides import Sides

_CONFIDENCE = 0.95
_STEP_TIME = METRICS["step_time"]


def compared_sides(args: argparse.Namespace, command: Sequence[str]) -> Comparison:
    """Capture both sides in pairs, say why they differ if they do, and keep the answer."""
    if args.revisions is None:
        return _compared(args, *sides_of_words(args, command))
    names = args.revisions.split(",")
    revisions = [*map(revision, names)]
    one, other = (f"{name} ({of.short})" for name, of in zip(names, revisions, strict=True))
    with worktrees(*revisions) as folders:
        return _compared(args, *sides_of_words(args, command, folders), labels=(one, other))


def _compared(
    args: argparse.Namespace, sides: Sides, wanted: int, labels: tuple[str, str] | None = None
) -> Comparison:
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
    unexplained = found.differing & EXPLAINED
    whole = sides if unexplained else sides.with_common("tool=[]")
    dag = Dag(load(whole.with_common(f"repeats={captured.count}").words))
    pairing = captured.pairing
    targets = [file for one in dag.plan.runs for file in dag.run_files(one)]
    if not run.make(dag, targets, args):
        raise ProfkitError("not all of the comparison could be made", hint="see above")
    before, after = (
        measured(RunFolder(Path("results/runs", name))) for name in (pairing.a, pairing.b)
    )
    found = compared_runs(before, after, band=args.band, confidence=confidence, anyway=args.anyway)
    if unexplained:
        found = replace(found, why=explained_of(unexplained, before, after))
        draw(args.flame_graph, before, after)
    # The folder of a revision says nothing of it.
    told = [one for one in found.found if labels is None or one.key != "launcher.cwd"]
    found = replace(found, pairing=pairing, labels=labels, found=tuple(told))
    keep(pairing.name, found)
    if not run.make(dag, [str(REPORT)], args):
        raise ProfkitError("the report could not be made", hint="see above")
    if not (args.quiet or args.json):
        sys.stderr.write(f"report: {REPORT}; again: profkit show {pairing.name}\n")
    return found


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
