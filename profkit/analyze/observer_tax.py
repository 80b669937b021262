"""Observer tax: how much each tool slows the steps down, against the unprofiled run."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profkit.analyze._step_times import BASELINE, timed
from profkit.analyze.base import ByTool, analysis
from profkit.result import Abstention, Chart, Finding, Metric, Result, Severity, Table, table
from profkit.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/observer_tax.yaml``."""

    skip_first: int = 3
    """First steps left out, of the tools and of the baseline."""

    warn_slowdown: float = 1.2
    """Ratio of profiled to unprofiled step time above which a tool's times mislead."""


@analysis(title="Observer tax")
def analyze(steps: ByTool, config: Config) -> Result:
    """Compare each tool's step times with those of the unprofiled capture (tool ``baseline``).

    The slowdown of a rank and repeat is the median of its step times over the baseline's median,
    on the same rank, the same steps and all repeats of the baseline. A tool's slowdown is the
    median of these; the range is that of its ranks and repeats. The steps are those in the
    tool's own table: those that it recorded, if it has a schedule.
    """
    if BASELINE not in steps or steps[BASELINE].empty:
        return Result.abstain(
            "slowdown of the tools", f"there is no unprofiled capture: enable the tool {BASELINE}"
        )
    base = timed(steps[BASELINE], config.skip_first)
    taxes = {
        tool: _slowdowns(timed(rows, config.skip_first), base)
        for tool, rows in steps.items()
        if tool != BASELINE
    }
    known = {tool: rows for tool, rows in taxes.items() if len(rows)}
    missing = tuple(
        Abstention(what=f"slowdown by {tool}", reason="no step of it is in the baseline too")
        for tool in taxes
        if tool not in known
    )
    if not known:
        nothing = Abstention(what="slowdown of the tools", reason="only the baseline ran")
        return Result(abstentions=missing or (nothing,))
    each = pd.concat(rows.assign(tool=tool) for tool, rows in known.items())
    overall = _overall(each)
    return Result(
        findings=tuple(_finding(row, config) for row in overall.to_dict("records")),
        metrics={
            f"{row['tool']}_slowdown_ratio": Metric(
                value=row["slowdown_ratio"],
                unit="ratio",
                title=f"Step time with {row['tool']} over without",
                better="lower",
            )
            for row in overall.to_dict("records")
        },
        tables=_tables(overall, each),
        charts=(
            Chart(
                kind="bar",
                title="Step time with the tool over without",
                table="by_tool",
                x="tool",
                y=("slowdown_ratio",),
            ),
        ),
        abstentions=missing,
    )


_MEASURES = ["steps", "median_ns", "baseline_ns", "slowdown_ratio"]


def _slowdowns(rows: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Return for each rank and repeat of a tool its median step time over the baseline's."""
    # Steps differ from one another: a tool that records a few of them meets the same few.
    both = rows.merge(base[["rank", "step"]].drop_duplicates(), on=["rank", "step"])
    matched = base.merge(rows[["rank", "step"]].drop_duplicates(), on=["rank", "step"])
    times = both.groupby(["rank", "repeat"], observed=True)["step_time_ns"]
    result = times.agg(steps="size", median_ns="median").reset_index()
    baseline = matched.groupby("rank", observed=True)["step_time_ns"].median()
    result["baseline_ns"] = result["rank"].map(baseline)
    result["slowdown_ratio"] = result["median_ns"] / result["baseline_ns"]
    return result[result["baseline_ns"] > 0]


def _overall(each: pd.DataFrame) -> pd.DataFrame:
    """Return one row per tool, the costliest first."""
    by_tool = each.groupby("tool", observed=True)
    rows = by_tool.agg(
        slowdown_ratio=("slowdown_ratio", "median"),
        lowest_ratio=("slowdown_ratio", "min"),
        highest_ratio=("slowdown_ratio", "max"),
        median_ns=("median_ns", "median"),
        baseline_ns=("baseline_ns", "median"),
        ranks=("rank", "nunique"),
        repeats=("repeat", "nunique"),
    )
    return rows.reset_index().sort_values("slowdown_ratio", ascending=False, ignore_index=True)


def _tables(overall: pd.DataFrame, each: pd.DataFrame) -> dict[str, Table]:
    return {
        "by_tool": table(
            overall, title="Slowdown by tool", note="Range over ranks and repeats of the tool."
        ),
        "by_repeat": table(
            each[["tool", "rank", "repeat", *_MEASURES]],
            title="Slowdown by tool, rank and repeat",
            note="Medians over the steps that tool and baseline both have.",
        ),
    }


def _finding(row: dict[Hashable, Any], config: Config) -> Finding:
    ratio, low, high = (row[f"{name}_ratio"] for name in ("slowdown", "lowest", "highest"))
    heavy = ratio > config.warn_slowdown
    return Finding(
        severity=Severity.WARN if heavy else Severity.INFO,
        message=f"Steps take {ratio:.2f} times as long with {row['tool']} as without any tool "
        f"({low:.2f} to {high:.2f} over {row['ranks']} rank(s) and {row['repeats']} repeat(s)).",
        metric=f"observer_tax.{row['tool']}_slowdown_ratio",
        value=ratio,
        unit="ratio",
        evidence={"tool": row["tool"], "lowest_ratio": low, "highest_ratio": high},
        advice="Read its times as shares; record fewer steps, or less of each." if heavy else "",
    )
