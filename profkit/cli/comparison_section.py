"""A comparison as a section of the report."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from profkit.analyze.shared.paired import Judgement, Outcome
from profkit.analyze.shared.waterfall import Waterfall
from profkit.cli.comparison import Comparison, notes, pair_rows, sentence, typical_values
from profkit.cli.metric_words import TITLES, shown
from profkit.core.result import Abstention, Finding, Result, Severity, Table, table


def section(comparison: Comparison) -> Result:
    """Return the judgements, and what they rest on."""
    tables = {"metrics": _metrics(comparison), "pairs": _pairs(comparison)}
    if comparison.why.step_time is not None:
        tables["why"] = _why(comparison.why.step_time)
    if comparison.why.in_some_steps:
        tables["in_some_steps"] = in_some_steps(map(asdict, comparison.why.in_some_steps))
    decisive = ", ".join(map(str, comparison.decisive))
    reasons = [decisive] if decisive else []
    return Result(
        findings=tuple(_findings(comparison)),
        tables={name: found for name, found in tables.items() if found.rows},
        abstentions=tuple(
            Abstention(what="how sure the comparison is", reason=reason)
            for reason in (*reasons, *notes(comparison.before, comparison.after))
        ),
    )


def in_some_steps(rows: Iterable[dict[str, Any]]) -> Table:
    """Return the table of `DoneInSomeSteps`."""
    return table(pd.DataFrame(rows), title="Work in some steps only, mean over all steps")


def _findings(comparison: Comparison) -> Iterator[Finding]:
    for word, judgement in comparison.judgements.items():
        values = " to ".join(shown(word, value) for value in typical_values(comparison, word))
        is_void = judgement.outcome is Outcome.VOID
        yield Finding(
            severity=Severity.WARN if is_void else Severity.INFO,
            message=f"{TITLES[word].capitalize()}, {values}: {sentence(word, judgement)}.",
            metric=f"pairs.{word}_ratio",
            value=judgement.ratio.ratio,
            unit="ratio",
            evidence={"outcome": str(judgement.outcome), "pairs": judgement.ratio.repeats},
        )


def _metrics(comparison: Comparison) -> Table:
    rows = [
        {
            "metric": TITLES[word],
            "answer": str(judgement.outcome),
            "change_share": judgement.ratio.ratio - 1,
            "low_share": _end(judgement, "low"),
            "high_share": _end(judgement, "high"),
            "pairs": judgement.ratio.repeats,
            "more_pairs": judgement.more_pairs,
        }
        for word, judgement in comparison.judgements.items()
    ]
    return table(pd.DataFrame(rows), title="Differences of B from A")


def _end(judgement: Judgement, name: str) -> float:
    interval = judgement.ratio.interval
    return float(getattr(interval, name)) - 1 if interval else math.nan


def _pairs(comparison: Comparison) -> Table:
    rows = [
        {
            "pair": row["pair"],
            "first": row["first"].upper(),
            **{f"{side}_step_time_ns": row[side].get("step_time", math.nan) for side in ("a", "b")},
            **{
                f"{side}_other_work_share": row[side]["conditions"].get(
                    "other_work_share", math.nan
                )
                for side in ("a", "b")
            },
        }
        for row in pair_rows(comparison)
    ]
    return table(pd.DataFrame(rows), title="Pairs")


def _why(found: Waterfall) -> Table:
    rows = [
        {
            "cause": bar.title,
            "difference_ms": bar.difference_ms,
            "low_ms": bar.interval.low if bar.interval else math.nan,
            "high_ms": bar.interval.high if bar.interval else math.nan,
            "beyond_chance": "no" if bar.is_noise else "yes",
            "module": bar.module,
        }
        for bar in found.bars
    ]
    title = "Difference of the step time by cause"
    note = f"Of rank {found.rank_after}, {found.basis} steps; the bars sum to the difference."
    return table(pd.DataFrame(rows), title=title, note=note)
