"""``profkit gate [RUN] --fail-if "step_time > +3%"``: fail if a run is worse.

Than a baseline (--against NAME), or than the other side of a comparison in pairs: that of
`profkit compare`, the newest one if none is named.

Exit status: 0 if every condition is known not to hold; 1 if one holds; 2 if the gate cannot be
run (words that make no sense, no such run or baseline, a file that cannot be written); 3 if the
answer is not known: inconclusive, void, not comparable, not measured, or not captured anew.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from profkit.analyze.shared.paired import (
    BAND,
    FEWEST_PAIRS,
    MOST_PAIRS,
    Judgement,
    Outcome,
    Ratio,
    adjusted,
    judged,
)
from profkit.cli.comparison import notes
from profkit.cli.explained import explained_of, lines
from profkit.cli.measured_run import (
    METRICS,
    MeasuredRun,
    differences,
    is_baseline,
    measured,
    read_baseline,
    timed_alike,
)
from profkit.cli.metric_words import MEASURING
from profkit.cli.run_folders import all_runs, last_selected, run_named
from profkit.cli.saved_comparison import kept_comparison
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import ProfkitError
from profkit.core.formatting import counted

USAGE = 2
_CONDITION = re.compile(r"\s*(\w+)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")
_CONFIDENCE = 0.95


class Answer(StrEnum):
    """What is known of a condition."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


STATUS = {Answer.PASS: 0, Answer.FAIL: 1, Answer.INCONCLUSIVE: 3}
"""Exit status of each answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A change of one metric that makes the gate fail."""

    text: str
    metric: str
    is_above: bool
    limit: float
    """Ratio to the baseline beyond which it holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """A condition, what is known of it, and why."""

    condition: Condition
    answer: Answer
    message: str
    pairs: int = 0
    """About how many pairs in all would tell; 0 if it is known, or no number of them would."""


def main(argv: Sequence[str]) -> int:
    """Check the conditions, print and write what came of them."""
    parser = argparse.ArgumentParser(
        prog="profkit gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = "name of a run, the first of the last selection if left out; without --against of a"
    about += " comparison, the newest one if left out"
    parser.add_argument("run", nargs="?", help=about)
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="baseline, its file, or a run that was captured in turn with this one",
    )
    about = f'such as "step_time > +3%%"; of {", ".join(METRICS)}; may be given several times'
    parser.add_argument(
        "--fail-if", required=True, action="append", type=condition, metavar="CONDITION", help=about
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the answers as JUnit XML")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write them as Markdown")
    args = parser.parse_args(argv)
    try:
        checked = _run(args)
    except (ProfkitError, OSError) as error:
        # Any other status would be that of an answer.
        sys.stderr.write(f"profkit gate: {error}\n")
        return USAGE
    return STATUS[_overall(checked)]


def _run(args: argparse.Namespace) -> list[Checked]:
    """Print the answers, write the files, and return the answers."""
    against, name, confidence = args.against, args.run, _CONFIDENCE
    if against is None:
        kept = kept_comparison(name)
        against, name, confidence = kept.a, kept.b, kept.confidence
    baseline = _reference(against)
    run = measured(run_named(name) if name else last_selected()[0])
    checked = check(baseline, run, args.fail_if, confidence)
    remarks = [
        *_remedy(checked, is_compared=args.against is None),
        *(f"differs: {difference}" for difference in differences(baseline, run)),
        *(f"note: {note}" for note in notes(baseline, run)),
    ]
    why = list(_why(baseline, run, checked))
    sys.stdout.write(f"{run.name} against {baseline.name}:\n")
    for result in checked:
        sys.stdout.write(f"{result.answer.upper()}  {result.condition.text}: {result.message}\n")
    sys.stdout.writelines(f"{line}\n" for line in (*why, *remarks))
    if args.junit:
        write_atomically(args.junit, _junit(checked))
    if args.markdown:
        content = _markdown(against, run, checked, why, remarks)
        write_atomically(args.markdown, content.encode())
    return checked


def _why(baseline: MeasuredRun, run: MeasuredRun, checked: Sequence[Checked]) -> Iterator[str]:
    """Yield the causes of what failed, and of nothing else."""
    failed = frozenset(one.condition.metric for one in checked if one.answer is Answer.FAIL)
    yield from lines(explained_of(failed, baseline, run))


def _reference(name: str) -> MeasuredRun:
    """Return the baseline with that name or in that file, or the run."""
    is_saved = is_baseline(name) or Path(name).is_file()
    if not is_saved and any(run.name.startswith(name) for run in all_runs()):
        return measured(run_named(name))
    return read_baseline(name)


def condition(text: str) -> Condition:
    """Return the condition in `text`; an error is one of usage."""
    found = _CONDITION.fullmatch(text)
    if found is None or found[1] not in METRICS:
        known = ", ".join(METRICS)
        raise argparse.ArgumentTypeError(f"{text!r}: write METRIC > +N%, with one of {known}")
    limit = 1 + float(found[3]) / 100
    if limit <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: nothing changes by -100% or less")
    return Condition(text=text.strip(), metric=found[1], is_above=found[2] == ">", limit=limit)


def check(
    baseline: MeasuredRun,
    run: MeasuredRun,
    conditions: Sequence[Condition],
    confidence: float = _CONFIDENCE,
) -> list[Checked]:
    """Return what is known of each condition, with all of them taken together (Holm)."""
    if message := _void(baseline, run):
        return [
            Checked(condition=asked, answer=Answer.INCONCLUSIVE, message=message)
            for asked in conditions
        ]
    found = [_judged(baseline, run, asked, confidence) for asked in conditions]
    p_values = adjusted([judgement.ratio.p_value if judgement else 1.0 for judgement in found])
    return [
        _checked(asked, judgement, p_value)
        for asked, judgement, p_value in zip(conditions, found, p_values, strict=True)
    ]


def _void(baseline: MeasuredRun, run: MeasuredRun) -> str:
    """Return why nothing can be known of any condition; empty if something can."""
    if set(baseline.began.values()) & set(run.began.values()):
        return (
            f"{run.name} has captures that the baseline was saved from: remove it and capture it "
            f"anew (profkit clean {run.name} --yes)"
        )
    decisive = [str(found) for found in differences(baseline, run) if found.is_decisive]
    return f"not comparable: {', '.join(decisive)}" if decisive else ""


def _judged(
    baseline: MeasuredRun, run: MeasuredRun, asked: Condition, confidence: float
) -> Judgement | None:
    """Judge the metric against that of the baseline times the limit; None without a pair.

    A drift by less than the limit does not make it void: the limit is the change that matters.
    """
    name = METRICS[asked.metric]
    baseline, run = timed_alike(baseline, run)
    if name not in baseline.metrics or name not in run.metrics:
        return None
    limits = {
        repeat: value * asked.limit for repeat, value in baseline.metrics[name].by_repeat.items()
    }
    values, drift = run.metrics[name].by_repeat, max(BAND, abs(asked.limit - 1))
    return judged(values, limits, band=0.0, drift=drift, confidence=confidence)


def _checked(asked: Condition, judgement: Judgement | None, p_value: float) -> Checked:
    if judgement is None:
        message = f"it was not measured in a repeat of both: {MEASURING[asked.metric]}"
        return Checked(condition=asked, answer=Answer.INCONCLUSIVE, message=message)
    bad, good = (
        (Outcome.HIGHER, Outcome.LOWER) if asked.is_above else (Outcome.LOWER, Outcome.HIGHER)
    )
    answer, why, needed = Answer.INCONCLUSIVE, "", 0
    if judgement.outcome is bad and p_value <= 1 - _CONFIDENCE:
        answer = Answer.FAIL
    elif judgement.outcome in (good, Outcome.SAME):
        answer = Answer.PASS
    elif judgement.ratio.repeats < FEWEST_PAIRS:
        why = f": it takes {FEWEST_PAIRS} pairs (repeats={FEWEST_PAIRS})"
    elif judgement.outcome is Outcome.VOID:
        why = f": void, {judgement.reason}"
    elif judgement.outcome is bad:
        why = ": chance with all conditions taken together"
    elif judgement.more_pairs:
        why = f": needs about {counted(judgement.more_pairs, 'more pair')}"
        needed = judgement.ratio.repeats + judgement.more_pairs
    message = f"{_change(judgement.ratio, asked.limit)}{why}"
    return Checked(condition=asked, answer=answer, message=message, pairs=needed)


def _remedy(checked: Sequence[Checked], *, is_compared: bool) -> Iterator[str]:
    """Yield what would tell the conditions of which nothing is known, if pairs would."""
    open_ = [result for result in checked if result.pairs]
    if not open_:
        return
    most = max(result.pairs for result in open_)
    band = min(abs(result.condition.limit - 1) for result in open_)
    if not is_compared:
        yield f"to know it, measure both runs with repeats={most}"
    elif band and most <= MOST_PAIRS:
        yield f"to know it, compare on with --pairs auto --band {100 * band:.3g}%"
    else:
        yield f"to know it, compare on with --pairs {most}"


def _change(ratio: Ratio, limit: float) -> str:
    """Return the change from the baseline in words, of a ratio to the limit."""
    change = f"{ratio.ratio * limit - 1:+.1%}"
    if ratio.interval is None:
        return f"{change}, {counted(ratio.repeats, 'pair')}"
    low, high = (f"{end * limit - 1:+.1%}" for end in (ratio.interval.low, ratio.interval.high))
    sure, pairs = f"{ratio.interval.confidence:.0%}", counted(ratio.repeats, "pair")
    return f"{change} ({sure} interval {low} to {high}, {pairs})"


def _overall(checked: Sequence[Checked]) -> Answer:
    answers = {result.answer for result in checked}
    order = (Answer.FAIL, Answer.INCONCLUSIVE, Answer.PASS)
    return next(answer for answer in order if answer in answers)


def _junit(checked: Sequence[Checked]) -> bytes:
    """Return one test case a condition: a failure if it holds, an error if that is not known."""
    count = {answer: sum(result.answer is answer for result in checked) for answer in Answer}
    suite = ET.Element(
        "testsuite",
        name="profkit gate",
        tests=str(len(checked)),
        failures=str(count[Answer.FAIL]),
        errors=str(count[Answer.INCONCLUSIVE]),
    )
    tags = {Answer.FAIL: "failure", Answer.INCONCLUSIVE: "error"}
    for result in checked:
        case = ET.SubElement(
            suite, "testcase", classname="profkit.gate", name=result.condition.text
        )
        if result.answer in tags:
            ET.SubElement(case, tags[result.answer], message=result.message)
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _markdown(
    against: str,
    run: MeasuredRun,
    checked: Sequence[Checked],
    why: Sequence[str],
    remarks: Sequence[str],
) -> str:
    lines = [
        f"### profkit gate: {_overall(checked)}",
        "",
        f"`{run.name}` against `{against}`",
        "",
        "| fails if | answer | change |",
        "| --- | --- | --- |",
        *(f"| {one.condition.text} | {one.answer} | {one.message} |" for one in checked),
        *(["", "```", *why, "```"] if why else []),
        *([""] if remarks else []),
        *(f"- {remark}" for remark in remarks),
    ]
    return "\n".join(lines) + "\n"
