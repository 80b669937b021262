"""Profiler overhead: how much each tool slows the steps down, against the unprofiled run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze.base import ByTool, analysis
from profkit.analyze.shared.paired import Ratio, no_interval, over_repeats
from profkit.analyze.shared.step_times import (
    TRACER,
    UNPROFILED,
    ClockedSteps,
    step_time,
    with_step_times,
    without_first,
)
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.core.step_time import BASELINE, step_time_title

_STEP = ["rank", "repeat", "step"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/observer_tax.yaml``."""

    skip_first: int = 3
    """First steps left out, of the tools and of the baseline."""

    confidence: float = 0.95
    """Probability that an interval contains the true slowdown."""


_CHARTS = (
    Chart(
        kind="bar",
        title="Step time with the tool over without",
        table="by_tool",
        x="tool",
        y=("slowdown_ratio",),
    ),
)


@analysis(title="Profiler overhead")
def analyze(
    steps: ByTool,
    clocked: ClockedSteps,
    config: Config,
) -> Result:
    """How much slower are steps under each tool than in the unprofiled capture (``baseline``)?

    The slowdown of a rank and repeat is the median of its step times over the baseline's median,
    on the same rank, the same steps and the same repeat, which were captured one after the other.
    That of a repeat is the median of its ranks, and a tool's the geometric mean of its repeats,
    with an interval from how much they differ. The steps are those in the tool's own table:
    those that it recorded, if it has a schedule; their times are those of the clock that times the
    baseline.
    """
    if BASELINE not in steps or steps[BASELINE].empty:
        return Result.abstain(
            "slowdown of the tools", f"there is no unprofiled capture: enable the tool {BASELINE}"
        )
    timed = {tool: rows for tool, rows in steps.items() if tool != BASELINE}
    if TRACER in timed and clocked is not None and len(clocked):
        timed[TRACER] = clocked.merge(timed[TRACER][_STEP], on=_STEP)
    taxes = {
        tool: _slowdowns(rows, steps[BASELINE], config.skip_first) for tool, rows in timed.items()
    }
    known = {tool: rows for tool, rows in taxes.items() if len(rows)}
    reason = "no step of it is in the same repeat of the baseline"
    missing = tuple(
        Abstention(what=f"slowdown by {tool}", reason=reason) for tool in taxes if tool not in known
    )
    if not known:
        nothing = Abstention(what="slowdown of the tools", reason="only the baseline ran")
        return Result(abstentions=missing or (nothing,))
    by_repeat = pd.concat(rows.assign(tool=tool) for tool, rows in known.items())
    slowdowns = _by_tool(by_repeat, config.confidence)
    return Result(
        metrics={**_metrics(slowdowns), UNPROFILED: _unprofiled(steps[BASELINE], config)},
        tables=_tables(slowdowns, by_repeat),
        charts=_CHARTS,
        abstentions=(*missing, *_unsure(slowdowns)),
    )


_MEASURES = ["steps", "median_ns", "baseline_ns", "slowdown_ratio"]


def _slowdowns(rows: pd.DataFrame, base: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return for each rank and repeat of a tool its median step time over the baseline's.

    A tool that recorded a few first steps may have none after those that are slow in the baseline.
    They may be so in both, as the program is, or in the baseline alone, as the machine was: the
    tool's are compared with the same steps or with the later ones, whichever they are more like.
    """
    recorded, steady = with_step_times(rows, skip_first), with_step_times(base, skip_first)
    if len(recorded.merge(steady, on=_STEP)):
        return _over(*_matched(recorded, steady))
    recorded, every = without_first(rows, skip_first), without_first(base, skip_first)
    same, later = _over(*_matched(recorded, every)), _over(recorded, steady)
    made = [found for found in (same, later) if len(same) and len(found)]
    return min(made, key=_distance, default=same)


def _distance(slowdowns: pd.DataFrame) -> float:
    return float(np.log(slowdowns["slowdown_ratio"]).abs().median())


def _matched(rows: pd.DataFrame, base: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the steps that both have: steps differ, and a tool records a few of them."""
    key = ["rank", "step"]
    return rows.merge(base[key].drop_duplicates()), base.merge(rows[key].drop_duplicates())


def _over(rows: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Return for each rank and repeat of both the median of `rows` over that of `base`."""
    times = rows.groupby(["rank", "repeat"], observed=True)["step_time_ns"]
    result = times.agg(steps="size", median_ns="median").reset_index()
    baseline = base.groupby(["rank", "repeat"], observed=True)["step_time_ns"].median()
    result = result.merge(baseline.rename("baseline_ns").reset_index(), on=["rank", "repeat"])
    result["slowdown_ratio"] = result["median_ns"] / result["baseline_ns"]
    return result[(result["baseline_ns"] > 0) & (result["median_ns"] > 0)]


def _by_tool(by_repeat: pd.DataFrame, confidence: float) -> dict[str, Ratio]:
    """Return the slowdown by each tool, the costliest first."""
    medians = by_repeat.groupby(["tool", "repeat"], observed=True)["slowdown_ratio"].median()
    found = {
        str(tool): over_repeats(dict(enumerate(ratios)), confidence=confidence)
        for tool, ratios in medians.groupby(level="tool")
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].ratio))


def _row(tool: str, ratio: Ratio, by_repeat: pd.DataFrame) -> dict[str, Any]:
    own = by_repeat[by_repeat["tool"] == tool]
    return {
        "tool": tool,
        "slowdown_ratio": ratio.ratio,
        "low_ratio": ratio.interval.low if ratio.interval else math.nan,
        "high_ratio": ratio.interval.high if ratio.interval else math.nan,
        "median_ns": own["median_ns"].median(),
        "baseline_ns": own["baseline_ns"].median(),
        "ranks": own["rank"].nunique(),
        "repeats": ratio.repeats,
    }


def _tables(slowdowns: Mapping[str, Ratio], by_repeat: pd.DataFrame) -> dict[str, Table]:
    return {
        "by_tool": table(
            pd.DataFrame([_row(tool, ratio, by_repeat) for tool, ratio in slowdowns.items()]),
            title="Slowdown by tool",
            note="Low and high are the ends of the interval, from how much repeats differ.",
        ),
        "by_repeat": table(
            by_repeat[["tool", "rank", "repeat", *_MEASURES]],
            title="Slowdown by tool, rank and repeat",
            note="Medians over the steps that tool and baseline both have, or over others of the"
            " baseline where these were slow in it alone.",
        ),
    }


def _metrics(slowdowns: Mapping[str, Ratio]) -> dict[str, Metric]:
    return {
        f"{tool}_slowdown_ratio": Metric(
            value=ratio.ratio,
            unit="ratio",
            title=f"Step time with {tool} over without",
            better="lower",
            interval=ratio.interval,
        )
        for tool, ratio in slowdowns.items()
    }


def _unprofiled(baseline: pd.DataFrame, config: Config) -> Metric:
    found = step_time(baseline, None, baseline, config.skip_first)
    title = step_time_title(BASELINE, is_mean=found.is_mean)
    return Metric(value=found.time_ns, unit="ns", title=title, better="lower")


def _unsure(slowdowns: Mapping[str, Ratio]) -> tuple[Abstention, ...]:
    return tuple(
        Abstention(what=f"interval of the slowdown by {tool}", reason=no_interval(ratio.repeats))
        for tool, ratio in slowdowns.items()
        if ratio.interval is None
    )
