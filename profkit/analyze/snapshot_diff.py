"""Memory compared: what differs between two runs, and between two instants of each run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import Mapped, analysis
from profkit.analyze.shared.allocation_origins import WHERE, live_at, peak_event, with_origins
from profkit.core.formatting import size
from profkit.core.result import Abstention, Finding, Result, Severity, Table, table
from profkit.core.settings import Settings

Instant = Literal["start", "peak", "end"] | int

_ALONE = (
    Abstention(
        what="differences between runs",
        reason="the selection has one run whose memory was recorded",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/snapshot_diff.yaml``."""

    by: Literal["line", "stack", "operator", "module", "origin"] = "line"
    """What allocations are summed by before they are compared."""

    instant: Instant = "peak"
    """Instant at which runs are compared: start or end of the history, peak, or end of a step."""

    earlier: Instant = "start"
    """First of the two instants that are compared within each run."""

    later: Instant = "end"
    """Second of the two."""

    max_rows: PositiveInt = 100
    """Rows kept of each table."""


def live_by_instant(
    allocations: pd.DataFrame, config: Config
) -> Mapping[Instant, "pd.Series[int]"]:
    """Return what was live at each instant that is compared, of the GPU with the highest peak."""
    if allocations.empty:
        return {}
    own = _worst(with_origins(allocations))
    instants = dict.fromkeys((config.earlier, config.later, config.instant))
    return {instant: _sums(own, instant, config.by) for instant in instants}


@analysis(title="Memory compared", across="runs", mapped_by=live_by_instant)
def analyze(mapped: Mapped, config: Config) -> Result:
    """What was live in each run that was not in the first run of the selection, and the reverse?

    Of each run this takes the GPU with the highest peak. Within a run it compares two instants
    of the history: what was live at the later one and not at the earlier one has grown.
    """
    runs = {run: live for run, live in mapped.items() if live}
    if not runs:
        return Result.abstain("differences of memory", "no allocation was recorded")
    first, *others = runs
    at, by = config.instant, config.by
    within = [
        _change(live[config.earlier], live[config.later], run, by) for run, live in runs.items()
    ]
    between = {run: _change(runs[first][at], runs[run][at], run, by) for run in others}
    tables = {"within": _table(within, f"From {config.earlier} to {config.later}", config)}
    if between:
        title = f"Compared with {first}, at {config.instant}"
        tables["between"] = _table([*between.values()], title, config)
    return Result(
        findings=tuple(
            _finding(change, name, first, config.by) for name, change in between.items()
        ),
        tables=tables,
        abstentions=() if between else _ALONE,
    )


def _worst(own: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the device with the highest peak."""
    devices = [rows for _, rows in own.groupby(WHERE, observed=True)]
    return max(devices, key=lambda rows: peak_event(rows)[1])


def _live(own: pd.DataFrame, instant: Instant) -> pd.DataFrame:
    if instant == "start":
        return live_at(own, -1)
    if instant == "peak":
        return live_at(own, peak_event(own)[0])
    if instant == "end":
        return own[(own["end_event"] < 0).to_numpy()]
    until = own[((own["step"] <= int(instant)) & (own["start_event"] >= 0)).to_numpy()]
    return live_at(own, int(until["start_event"].max()) if len(until) else -1)


def _sums(own: pd.DataFrame, instant: Instant, by: str) -> "pd.Series[int]":
    live = _live(own, instant)
    name = live[by].astype(object).replace("", "(not recorded)")
    return live["size_bytes"].groupby(name).sum()


def _change(before: "pd.Series[int]", after: "pd.Series[int]", run: str, by: str) -> pd.DataFrame:
    rows = pd.DataFrame({"before_bytes": before, "after_bytes": after}).fillna(0).astype("int64")
    rows["change_bytes"] = rows["after_bytes"] - rows["before_bytes"]
    rows = rows[(rows["change_bytes"] != 0).to_numpy()]
    order = rows["change_bytes"].abs().sort_values(ascending=False, kind="stable").index
    rows = rows.loc[order].rename_axis(by).reset_index()
    rows.insert(0, "run", run)
    return rows


def _table(parts: list[pd.DataFrame], title: str, config: Config) -> Table:
    return table(pd.concat(parts, ignore_index=True), title=title, limit=config.max_rows)


def _finding(change: pd.DataFrame, run: str, reference: str, by: str) -> Finding:
    total = int(change["change_bytes"].sum())
    message = f"{run} holds {size(abs(total))} {'more' if total >= 0 else 'less'} than {reference}"
    if len(change):
        most = change.iloc[0]
        message += f"; what changed most, by {size(most['change_bytes'])}, is from {most[by]}"
    return Finding(
        severity=Severity.INFO,
        message=f"{message}.",
        metric="snapshot_diff.change_bytes",
        value=total,
        unit="bytes",
        evidence={"run": run},
    )
