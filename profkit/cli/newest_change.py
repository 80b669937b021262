"""By how much the newest result of a run differs from the one before it, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import pandas as pd

from profkit.analyze.shared.drawn_waterfalls import CHART, Drawn, waterfall_tables
from profkit.analyze.shared.paired import BAND
from profkit.cli.comparison import Comparison, compared_runs, sentence, typical_values
from profkit.cli.comparison_section import in_some_steps
from profkit.cli.explained import Why, explained, unknown
from profkit.cli.measured_run import MeasuredRun
from profkit.cli.metric_words import TITLES, shown
from profkit.core.result import Abstention, Finding, Result, Severity, Table, table

_NOW = "now"
_NOTE = (
    "Per step, of the newest result against the one before it. One capture of each gives no "
    "interval: repeats=6 does."
)


@dataclass(frozen=True, kw_only=True)
class NewestChange:
    """The newest result of a series, beside the one before it."""

    series: str
    saved_as: str
    """Name of the result before it."""

    before: MeasuredRun
    now: MeasuredRun

    @cached_property
    def compared(self) -> Comparison:
        """By how much they differ."""
        return compared_runs(self.before, self.now, band=BAND)

    def values(self, word: str) -> list[str]:
        """Return a metric before and now, with its unit."""
        return [shown(word, value) for value in typical_values(self.compared, word)]

    @cached_property
    def why(self) -> Why:
        """What their difference consists of."""
        return explained(self.before, self.now)

    @property
    def unknown(self) -> str:
        """Return why the causes say nothing of the difference, "" if they do or there are none."""
        return unknown(self.why.step_time) if self.why.step_time else ""


def section(changes: Sequence[NewestChange]) -> Result:
    """Return what the numbers of each run were before and are now, and why step times differ."""
    tables = _tables(changes)
    return Result(
        findings=tuple(finding for one in changes for finding in _findings(one)),
        tables=tables,
        charts=(CHART,) if CHART.table in tables else (),
        abstentions=tuple(
            Abstention(what=f"why {one.series} differs from {one.saved_as}", reason=one.unknown)
            for one in changes
            if one.unknown
        ),
    )


def _findings(change: NewestChange) -> Iterator[Finding]:
    """Yield the differences that repeats tell from chance."""
    for word, judgement in change.compared.judgements.items():
        if word in change.compared.differing:
            values = " to ".join(change.values(word))
            yield Finding(
                severity=Severity.INFO,
                message=f"{change.series}, since {change.saved_as}: "
                f"{TITLES[word]} {values}, {sentence(word, judgement)}.",
                metric=f"history.{word}_ratio",
                value=judgement.ratio.ratio,
                unit="ratio",
                evidence={"pairs": judgement.ratio.repeats},
            )


def _tables(changes: Sequence[NewestChange]) -> dict[str, Table]:
    """Return what differs, and why as far as that is known."""
    differences = [
        {"compared": one.series, "metric": TITLES[word]}
        | dict(zip(("before", "now"), one.values(word), strict=True))
        | {"answer": sentence(word, judgement)}
        for one in changes
        for word, judgement in one.compared.judgements.items()
    ]
    drawn = [
        Drawn(before=one.saved_as, after=_NOW, compared=one.series, why=one.why.step_time)
        for one in changes
        if one.why.step_time and not one.unknown
    ]
    seldom = [
        {"compared": one.series} | asdict(done) for one in changes for done in one.why.in_some_steps
    ]
    title = "The newest result and the one before it"
    return {
        **({"newest": table(pd.DataFrame(differences), title=title)} if differences else {}),
        **(waterfall_tables(drawn, _NOTE) if drawn else {}),
        **({"in_some_steps": in_some_steps(seldom)} if seldom else {}),
    }
