"""Series of saved results over time, and where their numbers changed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze.shared.change_points import FENCED_BELOW, FEWEST, change_points
from profkit.cli.measured_run import METRICS, MeasuredRun, differences, step_times_ns
from profkit.cli.newest_change import NewestChange, section
from profkit.core.checksums import sha256
from profkit.core.fingerprint import HISTORY_CODE, provenance
from profkit.core.result import Abstention, Chart, Document, Finding, Result, Severity, table

NAME = "history"
"""Name of the result."""

_MOST_DIFFERENCES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A result with the name that it was saved under."""

    name: str
    measured: MeasuredRun

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.measured.name

    @property
    def began(self) -> str:
        """When its first repeat began."""
        return min(self.measured.began.values(), default="")

    def value(self, metric: str) -> float | None:
        """Return the number that `profkit ls` and `show` print; None if it was not measured."""
        found = self.measured.metrics.get(METRICS[metric])
        return found.value if found and found.value > 0 else None


Series = list[Saved]
"""Results of one configuration that can be compared, in the order of time."""


def series_of(saved: Sequence[Saved]) -> dict[str, Series]:
    """Return the series, by their names: that of the run, numbered where machines differ."""
    found: list[Series] = []
    for one in sorted(saved, key=lambda one: one.began):
        for series in found:
            if one.run == series[0].run and _comparable(series[0], one):
                series.append(one)
                break
        else:
            found.append([one])
    runs = [series[0].run for series in found]
    return {
        run if runs.count(run) == 1 else f"{run}, machine {runs[: index + 1].count(run)}": series
        for index, (run, series) in enumerate(zip(runs, found, strict=True))
    }


def _comparable(one: Saved, other: Saved) -> bool:
    found = differences(one.measured, other.measured)
    return not any(difference.is_decisive for difference in found)


def history(series: Mapping[str, Series]) -> Result:
    """Return the points of all series, why the last differs, and changes where enough are there."""
    if not series:
        return Result.abstain("changes over saved results", "no run here has step times")
    points = pd.DataFrame(
        [
            {
                "series": name,
                "result": saved.name,
                "began": saved.began[:16],
                "step_time_ns": step_time,
            }
            for name, results in series.items()
            for saved, step_time in zip(
                results, step_times_ns([saved.measured for saved in results]), strict=True
            )
        ]
    )
    changes = changes_of(series)
    newest = section([*_newest(series)])
    tables = {"points": table(_in_time(points), title="Saved results")}
    if any(len(results) >= FEWEST for results in series.values()):
        tables["changes"] = table(
            pd.DataFrame(changes, columns=_COLUMNS),
            title="Changes over saved results",
            note="Without a p-value: beyond the fence of earlier changes, in a series of fewer "
            f"than {FENCED_BELOW} results.",
        )
    return Result(
        findings=(
            *newest.findings,
            *(_finding(row) for row in changes if row["metric"] == "step_time"),
        ),
        tables={**newest.tables, **tables},
        charts=(
            *newest.charts,
            Chart(
                kind="line",
                title="Step time over saved results",
                table="points",
                x="began",
                y=("step_time_ns",),
                color="series",
            ),
        ),
        abstentions=(*newest.abstentions, *_short(series)),
    )


def _newest(series: Mapping[str, Series]) -> Iterator[NewestChange]:
    """Yield how the newest result of each series differs from the one before it."""
    for name, results in series.items():
        if len(results) > 1:
            before, now = results[-2:]
            yield NewestChange(
                series=name, saved_as=before.name, before=before.measured, now=now.measured
            )


def _in_time(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points of all series in one order, as a chart of them has its places."""
    return points.sort_values("began", kind="stable") if len(points) else points


_COLUMNS = ["series", "metric", "result", "began", "before", "after", "change_share", "p_value"]
_COLUMNS += ["differences"]


def changes_of(series: Mapping[str, Series]) -> list[dict[str, Any]]:
    """Return where the numbers of all series changed, a row for each change and number."""
    return [row for name, results in series.items() for row in _changes(name, results)]


def _changes(name: str, results: Series) -> Iterator[dict[str, str | float | None]]:
    for metric in METRICS:
        known = [(saved, value) for saved in results if (value := saved.value(metric))]
        for found in change_points(np.log([value for _, value in known])):
            (previous, _), (saved, _) = known[found.index - 1 : found.index + 1]
            yield {
                "series": name,
                "metric": metric,
                "result": saved.name,
                "began": saved.began[:16],
                "before": math.exp(found.before),
                "after": math.exp(found.after),
                "change_share": math.expm1(found.change),
                "p_value": found.p_value,
                "differences": _listed(previous, saved),
            }


def _listed(previous: Saved, saved: Saved) -> str:
    found = [*map(str, differences(previous.measured, saved.measured))]
    more = f" and {len(found) - _MOST_DIFFERENCES} more" if len(found) > _MOST_DIFFERENCES else ""
    return f"{', '.join(found[:_MOST_DIFFERENCES])}{more}"


def _finding(row: Mapping[str, Any]) -> Finding:
    word = "slower" if row["change_share"] > 0 else "faster"
    return Finding(
        severity=Severity.WARN if row["change_share"] > 0 else Severity.INFO,
        message=f"{row['series']}: {abs(row['change_share']):.1%} {word} since {row['result']}.",
        metric=f"{NAME}.step_time_change_share",
        value=row["change_share"],
        unit="share",
        evidence={
            "began": row["began"],
            **({"differences": row["differences"]} if row["differences"] else {}),
        },
    )


def _short(series: Mapping[str, Series]) -> Iterator[Abstention]:
    for name, results in series.items():
        if len(results) < FEWEST:
            reason = f"it takes {FEWEST} results, not {len(results)}: profkit baseline save NAME"
            yield Abstention(what=f"changes of {name}", reason=reason)


def document(series: Mapping[str, Series], files: Sequence[Path], attempt: int) -> Document:
    """Return the history as a result of the report, made of these files."""
    return Document(
        analysis=NAME,
        title="History",
        summary="Do the numbers of a run change over saved results, and when?",
        result=history(series),
        provenance=provenance(*HISTORY_CODE, {}, {str(path): sha256(path) for path in files}),
        attempt=attempt,
    )
