"""Steps: how long each takes on each rank, how much that varies, and samples per second."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from profkit.analyze._steadiness import by_repeat, growing, unknown, unsettled, unsteady
from profkit.analyze.base import ByTool, Columns, OfTool, analysis
from profkit.analyze.shared.calls_apart import calls_apart
from profkit.analyze.shared.step_times import (
    BETWEEN_STEPS,
    BETWEEN_STEPS_BY_CALL,
    GROWTH,
    TRACER,
    ClockedSteps,
    StepTime,
    as_divided,
    baseline_or_first,
    between_steps_share,
    slowest_rank,
    step_time,
    with_step_times,
)
from profkit.analyze.shared.uncertainty import Statistic, Times, interval
from profkit.core.formatting import agreeing, ranks_and_repeats
from profkit.core.result import Abstention, Chart, Finding, Interval, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.core.step_time import BASELINE, step_time_title

_NS_PER_S = 1e9
_Rows = pd.DataFrame | None
_STACK, _SPENT = Columns("stack"), Columns("stack spent_ns")
# A median absolute deviation times this estimates the standard deviation of a normal spread.
_NORMAL = 1.4826


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/steps.yaml``."""

    skip_first: int = 3
    """First steps left out of every number: allocation, compilation and caches settle there."""

    outlier_deviations: float = 4.0
    """Slow steps are those this many (scaled median absolute) deviations above the median..."""

    outlier_excess: float = 0.2
    """...and by at least this share of it: where steps are even, a deviation is next to none."""

    warn_repeats: float = 0.05
    """Difference between the medians of repeats, as a share of the smallest, that is reported..."""

    warn_warm_up: float = 0.05
    """...and that of the first counted steps from the later ones; both only if not by chance."""

    warn_between_steps: float = 0.1
    """Share of the time between steps, as of evaluation, from which on it is a number."""

    warn_growth: float = 0.15
    """Growth of unprofiled steps, from the first third of them to the last, that is reported."""

    confidence: float = 0.95
    """Probability that intervals contain the true value; what is less certain is not reported."""

    bootstrap_draws: int = 2000
    """Samples drawn for the intervals; fewer make the ends of intervals themselves uncertain."""

    max_rows: int = 2000
    """Rows kept of the tables of single steps."""


@analysis(title="Steps")
def analyze(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    steps: ByTool,
    config: Config,
    causes: Result | None = None,
    clocked: ClockedSteps = None,
    between: Annotated[_Rows, OfTool(tool=TRACER, table="between_steps", columns=_SPENT)] = None,
    samples: Annotated[_Rows, OfTool(tool=TRACER, table="python_samples", columns=_STACK)] = None,
) -> Result:
    """How long does each step take, how much does that vary, and what is the throughput?

    A step takes as long as it does on its slowest rank: the largest of the ranks' own durations.
    The step time is the median of the unprofiled capture where there is one (their mean where slow
    steps are as usual as fast ones), or else the mean of the traced steps, which their causes sum
    to. Warm-up steps are left out. Intervals come from a bootstrap over repeats, and over the steps
    within them. Repeats differ, and steps still warm up or grow, only where that is not chance.
    """
    tool, rows = baseline_or_first(steps)
    kept = rows if rows.empty else with_step_times(rows, config.skip_first)
    if kept.empty:
        return Result.abstain("step times", _no_step(rows, config.skip_first))
    is_unprofiled = tool == BASELINE
    kept = kept if is_unprofiled else as_divided(rows, kept, causes)
    clock = _clock(kept)
    per_rank, per_repeat = _per_rank(kept), _per_repeat(clock, kept)
    times = by_repeat(clock)
    typical = step_time(steps.get(BASELINE), causes, kept, config.skip_first)
    again = _after_trace(steps.get(TRACER), clocked)
    grown = growing(clock, again, config.warn_growth) if is_unprofiled else None
    metrics = _metrics(clock, per_rank, per_repeat, "" if is_unprofiled else f", with {tool}")
    metrics = {
        "step_time_ns": _step_time(typical, times, tool, config),
        **_with_repeats(metrics, per_repeat, clock, times, config),
        **(_between_steps(kept, config) if is_unprofiled else {}),
        **({GROWTH: _growth(grown)} if grown else {}),
    }
    shown = {
        "Step times of each rank": ("per_rank", per_rank),
        "Step times of each repeat, on the slowest rank": ("per_repeat", per_repeat),
        "Each step of each rank, over the repeats": ("by_step", _by_step(kept)),
        "Every step, on the slowest rank": ("clock", clock),
        "Slow steps": ("outliers", _outliers(clock, config)),
        **(_what_runs_between(between, samples) if BETWEEN_STEPS in metrics else {}),
    }
    return Result(
        findings=(*([grown] if grown else []), *_findings(clock, per_repeat, config)),
        metrics=metrics,
        tables=_tables(shown, _note(tool, rows, kept), config.max_rows),
        charts=_charts(),
        abstentions=(
            *_abstentions(tool, metrics),
            *unknown(times, has_interval=metrics["step_time_ns"].interval is not None),
        ),
    )


def _no_step(rows: pd.DataFrame, skip_first: int) -> str:
    """Return why none of the steps in `rows` counts."""
    if rows.empty:
        return "no step was recorded"
    return agreeing(
        rows["step"].max() + 1,
        "[the only step is|all {} steps are] warm-up: run more than {few} or set warmup_steps",
        few=skip_first,
    )


def _what_runs_between(between: _Rows, samples: _Rows) -> dict[str, tuple[str, pd.DataFrame]]:
    """Return key and rows, by title, of what runs between steps, if it was looked at."""
    if between is None or samples is None:
        return {}
    spent_ns = between.groupby("stack", observed=True)["spent_ns"]
    apart = calls_apart(spent_ns.sum(), samples["stack"].value_counts())
    rows = pd.DataFrame(apart, columns=["place", "call", "share", "line"])
    return {"What runs between steps": (BETWEEN_STEPS_BY_CALL, rows)}


def _after_trace(traced: _Rows, clocked: ClockedSteps) -> pd.DataFrame:
    """Return the steps of the run that was traced after those that were, which nothing slows."""
    if traced is None or clocked is None or traced.empty:
        return pd.DataFrame({"step": [], "step_time_ns": []})
    return slowest_rank(with_step_times(clocked, int(traced["step"].max()) + 1))


def _tables(
    shown: Mapping[str, tuple[str, pd.DataFrame]], note: str, limit: int
) -> dict[str, Table]:
    """Return the tables that have rows, from key and rows by title."""
    return {
        key: table(rows, title=title, note=note, limit=limit)
        for title, (key, rows) in shown.items()
        if len(rows)
    }


def _by_step(kept: pd.DataFrame) -> pd.DataFrame:
    """Return median and longest time in ns of each step of each rank, over the repeats."""
    times = kept.groupby(["rank", "step"], observed=True)["step_time_ns"]
    return times.agg(median_ns="median", max_ns="max").reset_index()


def _clock(kept: pd.DataFrame) -> pd.DataFrame:
    """Return one row per repeat and step: the time and name of the slowest rank, all samples."""
    slowest = slowest_rank(kept)
    samples = kept.groupby(["repeat", "step"], observed=True)["samples"]
    total = samples.sum().where(samples.min() >= 0).rename("all_samples").reset_index()
    rows = slowest[["repeat", "step", "step_time_ns", "rank"]].merge(total, on=["repeat", "step"])
    return rows.rename(columns={"rank": "slowest_rank", "all_samples": "samples"})


def _per_rank(kept: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rank over all repeats; memory is the worst of the repeats."""
    by_rank = kept.groupby("rank", observed=True)
    rows = _distribution(kept, "rank")
    known = kept[kept["peak_memory_bytes"] >= 0].sort_values("step")
    peaks = known.groupby(["rank", "repeat"], observed=True)["peak_memory_bytes"]
    growth = (peaks.last() - peaks.first()).groupby(level="rank").max()
    rows["peak_memory_bytes"] = rows["rank"].map(peaks.max().groupby(level="rank").max())
    rows["peak_memory_growth_bytes"] = rows["rank"].map(growth)
    rows.insert(1, "steps", rows["rank"].map(by_rank.size()))
    return rows


def _per_repeat(clock: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """Return one row per repeat; times of day are UTC, as text that sorts."""
    began = pd.to_datetime(kept.groupby("repeat", observed=True)["start_ns"].min())
    rows = _distribution(clock, "repeat")
    sums = clock.groupby("repeat", observed=True)[["samples", "step_time_ns"]].sum(min_count=1)
    throughput = sums["samples"] / sums["step_time_ns"] * _NS_PER_S
    known = kept[kept["peak_memory_bytes"] >= 0]
    peaks = known.groupby("repeat", observed=True)["peak_memory_bytes"].max()
    return rows.assign(
        throughput_per_s=rows["repeat"].map(throughput),
        peak_memory_bytes=rows["repeat"].map(peaks),
        began=rows["repeat"].map(began.dt.strftime("%Y-%m-%d %H:%M:%S.%f")),
    )


def _distribution(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return median, percentiles, means and coefficient of variation for each `key`."""
    times = rows.groupby(key, observed=True)["step_time_ns"]
    fewer = (times.sum() - times.max()) / (times.size() - 1)
    return pd.DataFrame(
        {
            "median_ns": times.median(),
            "p5_ns": times.quantile(0.05),
            "p95_ns": times.quantile(0.95),
            "mean_ns": times.mean(),
            "mean_but_longest_ns": fewer.where(times.size() > 1, times.mean()),
            "variation_share": (times.std(ddof=0) / times.mean()).where(times.size() > 1),
        }
    ).reset_index()


def _outliers(clock: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the slow steps of each repeat, against that repeat's own median."""
    median = clock.groupby("repeat", observed=True)["step_time_ns"].transform("median")
    excess = clock["step_time_ns"] - median
    deviation = excess.abs().groupby(clock["repeat"], observed=True).transform("median") * _NORMAL
    slow = (excess > config.outlier_deviations * deviation) & (
        excess > config.outlier_excess * median
    )
    rows = clock.assign(excess_share=excess / median)[slow]
    return rows.sort_values("excess_share", ascending=False, ignore_index=True)


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="line",
            title="Step time over steps, median of the repeats",
            table="by_step",
            x="step",
            y=("median_ns",),
            color="rank",
        ),
        Chart(
            kind="box",
            title="Step time of the slowest rank, by repeat",
            table="clock",
            x="repeat",
            y=("step_time_ns",),
        ),
    )


def _metrics(
    clock: pd.DataFrame, per_rank: pd.DataFrame, per_repeat: pd.DataFrame, slowed_by: str
) -> dict[str, Metric]:
    """Return the metrics of the run; unknown ones are left out."""
    times, peak = clock["step_time_ns"], per_rank["peak_memory_bytes"]
    rate = clock["samples"].sum(skipna=False) / times.sum() * _NS_PER_S
    growth = (per_rank["peak_memory_growth_bytes"] / peak).max()
    values: tuple[tuple[str, float, str, Literal["lower", "higher"], str], ...] = (
        (
            "throughput_per_s",
            rate,
            "per_s",
            "higher",
            f"Samples per second, all ranks{slowed_by}",
        ),
        ("peak_memory_bytes", peak.max(), "bytes", "lower", "Peak memory of the worst rank"),
        ("spread", _variation(times), "share", "lower", "Coefficient of variation of step times"),
        (
            "rank_difference",
            _excess(per_rank),
            "share",
            "lower",
            "How much slower the slowest rank is than the fastest, by medians",
        ),
        (
            "repeat_difference",
            _excess(per_repeat),
            "share",
            "lower",
            "How much slower the slowest repeat is than the fastest, by medians",
        ),
        (
            "memory_growth_share",
            growth,
            "share",
            "lower",
            "Growth of the peak memory over the counted steps, of the peak",
        ),
    )
    return {
        name: Metric(value=float(value), unit=unit, title=title, better=better)
        for name, value, unit, better, title in values
        if np.isfinite(value)
    }


def _between_steps(kept: pd.DataFrame, config: Config) -> dict[str, Metric]:
    """Return the metric of what passes between steps where that is much, by its name."""
    share = between_steps_share(kept)
    title = "Time between steps, of all, unprofiled"
    found = Metric(value=share, unit="share", title=title, better="lower")
    return {BETWEEN_STEPS: found} if share >= config.warn_between_steps else {}


def _growth(grown: Finding) -> Metric:
    """Return the metric of steps that grow."""
    title = "Growth of the step time, from the first third of the steps to the last, unprofiled"
    return Metric(value=grown.value, unit="share", title=title, better="lower")


def _step_time(typical: StepTime, times: Mapping[int, Times], tool: str, config: Config) -> Metric:
    """Return the metric of the step time, with its interval."""
    return Metric(
        value=typical.time_ns,
        unit="ns",
        title=step_time_title(tool, is_mean=typical.is_mean),
        better="lower",
        by_repeat=dict(typical.by_repeat),
        interval=_interval(typical.time_ns, times, typical.statistic, config),
    )


def _interval(
    value: float, times: Mapping[int, Times], statistic: Statistic, config: Config
) -> Interval | None:
    level, draws = config.confidence, config.bootstrap_draws
    return interval(value, list(times.values()), statistic, confidence=level, draws=draws)


def _with_repeats(
    metrics: dict[str, Metric],
    per_repeat: pd.DataFrame,
    clock: pd.DataFrame,
    times: Mapping[int, Times],
    config: Config,
) -> dict[str, Metric]:
    """Return the metrics with throughput and peak memory of each repeat, and the interval."""
    repeats = per_repeat.set_index("repeat")
    found = dict(metrics)
    for name in {"throughput_per_s", "peak_memory_bytes"} & set(metrics):
        known = repeats[name].dropna()
        by_repeat = dict(zip(known.index.tolist(), known.tolist(), strict=True))
        found[name] = replace(metrics[name], by_repeat=by_repeat)
    # As long as all steps have as many samples, throughput is as uncertain as the mean step.
    rate = found.get("throughput_per_s")
    if rate is not None and clock["samples"].min() == clock["samples"].max():
        trusted = _interval(rate.value, times, np.mean, config)
        found["throughput_per_s"] = replace(rate, interval=trusted)
    return found


def _variation(times: "pd.Series[float]") -> float:
    """Return the coefficient of variation; NaN for a single step, which says nothing of it."""
    return float(times.std(ddof=0) / times.mean()) if len(times) > 1 and times.any() else math.nan


def _excess(rows: pd.DataFrame) -> float:
    """Return by which share the largest median exceeds the smallest; NaN for a single row."""
    least, most = rows["median_ns"].min(), rows["median_ns"].max()
    return float(most / least - 1) if len(rows) > 1 and least > 0 else math.nan


def _findings(clock: pd.DataFrame, per_repeat: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    """Return why the times are no good measure: steps that still warm up, repeats that differ."""
    settling = unsettled(clock, config.confidence, config.warn_warm_up)
    change = unsteady(per_repeat, by_repeat(clock), 1 - config.confidence)
    if change is None or change.value <= config.warn_repeats:
        return settling
    return (*settling, change)


def _abstentions(tool: str, metrics: dict[str, Metric]) -> tuple[Abstention, ...]:
    reasons = {
        "unprofiled step times": tool != BASELINE
        and f"the steps are those of {tool}, which slows them: enable the tool {BASELINE}",
        "throughput": "throughput_per_s" not in metrics
        and "the workload does not say how many samples a step has",
        "peak memory": "peak_memory_bytes" not in metrics
        and f"{tool} does not measure it: the timeline shows allocations where a trace has them",
    }
    return tuple(
        Abstention(what=what, reason=str(reason)) for what, reason in reasons.items() if reason
    )


def _note(tool: str, rows: pd.DataFrame, kept: pd.DataFrame) -> str:
    skipped = rows["step"].nunique() - kept["step"].nunique()
    first = agreeing(skipped, ", without the first [step|{} steps] of each") if skipped > 0 else ""
    return f"Captured with {tool}: {ranks_and_repeats(kept)}{first}."
