"""Comparison: which numbers of a run differ from those of another, beyond what is chance."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import ByRun, analysis
from profkit.analyze.shared.paired import (
    BAND,
    FEWEST_PAIRS,
    TOO_FEW,
    Outcome,
    Ratio,
    adjusted,
    compared,
    more_repeats,
    outcome_of,
)
from profkit.analyze.shared.repeat_order import beginnings, in_turn
from profkit.core.formatting import agreeing, counted
from profkit.core.result import Abstention, Chart, Finding, Interval, Result, Severity, Table, table
from profkit.core.settings import Settings, known
from profkit.core.step_time import timed_alike


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/comparison.yaml``."""

    reference: str = ""
    """Run that the others are compared with; empty takes the first one with step times."""

    confidence: float = 0.95
    """Least probability that a report in which no two runs differ announces no difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One metric of one run, compared with that of the reference."""

    run: str
    metric: str
    title: str
    ratio: Ratio
    p_value: float
    """Adjusted for all pairs of the report."""

    outcome: Outcome
    """That of the pair alone, with no change too small to matter."""

    more_repeats: int
    """About how many more would tell whether it is a difference that matters."""

    differs: bool
    """Whether it is announced."""


_CHARTS = (
    Chart(
        kind="forest",
        title="Numbers of each run over those of the reference",
        table="pairs",
        x="run",
        y=("ratio", "low_ratio", "high_ratio"),
        color="number",
        horizontal=True,
        log=("y",),
        band=BAND,
        needs="more_repeats",
    ),
)


@analysis(title="Differences between runs", across="runs")
def analyze(steps: ByRun, config: Config) -> Result:
    """Which runs differ in step time and throughput from a reference, and by which factor?

    Numbers are compared repeat by repeat: all runs are captured in turn, so what drifts meets
    them alike. The interval of a factor is Student's t of the repeats' logarithms, of that pair
    alone. A difference is announced only if it is beyond chance with all pairs taken together
    (Holm), and over no fewer than six repeats: the more runs are compared, the more it takes.
    """
    measured = {run: result for run, result in steps.items() if _repeated(result)}
    unmeasured = tuple(
        Abstention(what=f"differences of {run}", reason="it has no step times")
        for run in steps
        if run not in measured
    )
    if len(measured) <= 1:
        reason = "it takes two runs with step times: sweep over something"
        return Result.abstain("differences between runs", reason)
    if config.reference:
        known("run", config.reference, measured)
    measured, apart = timed_alike(measured, config.reference)
    reference = config.reference or next(iter(measured))
    pairs = _pairs(measured, reference, config)
    if not pairs:
        reason = f"no repeat was measured in {reference} and in another run as well"
        nothing = Abstention(what="differences between runs", reason=reason)
        return Result(abstentions=(*unmeasured, *apart, nothing))
    return Result(
        findings=tuple(_findings(pairs, reference, config.confidence)),
        tables={"pairs": _table(pairs, reference)},
        charts=_CHARTS,
        abstentions=(*unmeasured, *apart, *_unsure(pairs), *_apart(measured, reference)),
    )


def _repeated(result: Result) -> dict[str, dict[int, float]]:
    """Return the values by repeat of the metrics that have them."""
    return {name: metric.by_repeat for name, metric in result.metrics.items() if metric.by_repeat}


def _pairs(measured: Mapping[str, Result], reference: str, config: Config) -> list[Pair]:
    level = 1 - config.confidence
    ratios = [
        (
            run,
            name,
            ratio,
            outcome_of(repeats, reference_repeats, band=0.0, confidence=config.confidence),
            more_repeats(repeats, reference_repeats, confidence=config.confidence),
        )
        for name, reference_repeats in _repeated(measured[reference]).items()
        for run, result in measured.items()
        if run != reference
        and (repeats := _repeated(result).get(name))
        and (ratio := compared(repeats, reference_repeats, confidence=config.confidence))
        is not None
    ]
    p_values = adjusted([ratio.p_value for _, _, ratio, _, _ in ratios])
    return [
        Pair(
            run=run,
            metric=name,
            title=measured[reference].metrics[name].title,
            ratio=ratio,
            p_value=p_value,
            outcome=outcome,
            more_repeats=more,
            differs=outcome in (Outcome.HIGHER, Outcome.LOWER) and p_value <= level,
        )
        for (run, name, ratio, outcome, more), p_value in zip(ratios, p_values, strict=True)
    ]


def _findings(pairs: list[Pair], reference: str, confidence: float) -> Iterator[Finding]:
    """Yield one finding for each metric: in how many runs it differs, and in which most."""
    for metric in dict.fromkeys(pair.metric for pair in pairs):
        of_metric = [pair for pair in pairs if pair.metric == metric and _is_told(pair)]
        if not of_metric:
            continue
        different = [pair for pair in of_metric if pair.differs]
        shown = max(different or of_metric, key=lambda pair: abs(math.log(pair.ratio.ratio)))
        if shown.ratio.interval is None:
            continue
        yield Finding(
            severity=Severity.INFO,
            message=_sentence(
                shown, shown.ratio.interval, len(different), len(of_metric), reference
            ),
            metric=f"comparison.{metric}_differing_runs",
            value=len(different),
            unit="count",
            evidence={
                "run": shown.run,
                "reference": reference,
                "p_value": shown.p_value,
                "significance_level": round(1 - confidence, 6),
            },
        )


def _sentence(shown: Pair, trusted: Interval, different: int, runs: int, reference: str) -> str:
    factor = (
        f"{shown.ratio.ratio:.3g} times ({trusted.confidence:.0%} interval {trusted.low:.3g} to "
        f"{trusted.high:.3g}, {counted(shown.ratio.repeats, 'repeat')})"
    )
    if not different:
        return (
            f"{shown.title}: no difference from {reference} is beyond chance in "
            f"{counted(runs, 'other run')}; the largest, in {shown.run}, is {factor}."
        )
    return (
        f"{shown.title}: differs from that of {reference} in {different} of "
        f"{counted(runs, 'other run')}, most in {shown.run}: {factor}."
    )


def _is_told(pair: Pair) -> bool:
    """Say whether the repeats of a pair support a statement."""
    return pair.ratio.repeats >= FEWEST_PAIRS and pair.outcome is not Outcome.VOID


def _table(pairs: list[Pair], reference: str) -> Table:
    rows = [
        {
            "number": pair.title,
            "run": pair.run,
            "ratio": pair.ratio.ratio,
            "low_ratio": pair.ratio.interval.low if pair.ratio.interval else math.nan,
            "high_ratio": pair.ratio.interval.high if pair.ratio.interval else math.nan,
            "adjusted_p_value": pair.p_value if pair.ratio.interval else math.nan,
            "repeats": pair.ratio.repeats,
            "differs": _answer(pair),
            "more_repeats": None if pair.differs else pair.more_repeats,
        }
        for pair in pairs
    ]
    return table(
        pd.DataFrame(rows),
        title=f"Numbers of each run over those of {reference}",
        note="The ratio is the mean over pairs of repeats, which that of two medians may differ "
        "from. Low and high are the interval of that pair alone; whether it differs, and its "
        "p-value, take all pairs together.",
    )


def _answer(pair: Pair) -> str:
    if not _is_told(pair):
        return str(pair.outcome) if pair.outcome is Outcome.VOID else "not known"
    return "yes" if pair.differs else "not beyond chance"


def _unsure(pairs: list[Pair]) -> Iterator[Abstention]:
    """Yield in which runs the repeats do not support a statement, and why."""
    few = dict.fromkeys(pair.run for pair in pairs if pair.ratio.repeats < FEWEST_PAIRS)
    void = dict.fromkeys(pair.run for pair in pairs if pair.outcome is Outcome.VOID)
    for runs, reason in (
        (few, TOO_FEW),
        (void, "the machine got faster or slower from repeat to repeat: capture them again"),
    ):
        if runs:
            names = ", ".join(runs)
            what = agreeing(len(runs), "whether {of} differ[s|] from the reference", of=names)
            yield Abstention(what=what, reason=reason)


def _apart(measured: Mapping[str, Result], reference: str) -> Iterator[Abstention]:
    """Yield which runs were not captured in turn with the reference."""
    reference_began = beginnings(measured[reference])
    runs = [
        run
        for run, result in measured.items()
        if run != reference and not in_turn(beginnings(result), reference_began)
    ]
    if runs:
        yield Abstention(
            what=f"what the machine has to do with the differences of {', '.join(runs)}",
            reason=f"it was captured at another time than {reference}, not in turn with it; what "
            "changed on the machine in between shows as a difference: capture all runs anew",
        )
