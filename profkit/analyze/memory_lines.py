"""Memory line by line: which line of the named functions needed the most."""

from dataclasses import dataclass

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import analysis
from profkit.core.result import Chart, Metric, Result, table
from profkit.core.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_lines.yaml``."""

    max_rows: PositiveInt = 500
    """Lines kept in the table, in the order of the source."""


_CHARTS = (
    Chart(
        kind="bar",
        title="Most memory in use by line",
        table="lines",
        x="place",
        y=("peak_bytes",),
        horizontal=True,
        choose="rank",
    ),
)


@analysis(title="Memory line by line")
def analyze(memory_lines: pd.DataFrame, config: Config) -> Result:
    """How much memory was in use while each line of the named functions ran?

    A peak is of the whole process on its GPU, at most over all runs of the line and over the
    repeats, with what the functions that the line calls needed.
    """
    if memory_lines.empty:
        reason = "no line of a named function ran while it was recorded"
        return Result.abstain("memory line by line", reason)
    key = ["rank", "device", "function", "file", "line", "code"]
    rows = (
        memory_lines.groupby(key, observed=True, sort=False)
        .max()
        .reset_index()
        .drop(columns="repeat")
        .sort_values(["rank", "file", "line"], ignore_index=True, kind="stable")
    )
    rows["place"] = [
        f"{line} {code}" for line, code in zip(rows["line"], rows["code"], strict=True)
    ]
    return Result(
        metrics=_metrics(memory_lines),
        tables={"lines": table(rows, title="Lines of the named functions", limit=config.max_rows)},
        charts=_CHARTS,
    )


def _metrics(memory_lines: pd.DataFrame) -> dict[str, Metric]:
    by_repeat = memory_lines.groupby("repeat")["peak_bytes"].max()
    return {
        "peak_bytes": Metric(
            value=int(by_repeat.max()),
            unit="bytes",
            title="Most memory in use during a line of the named functions",
            better="lower",
            by_repeat=dict(zip(by_repeat.index.tolist(), by_repeat.tolist(), strict=True)),
        )
    }
