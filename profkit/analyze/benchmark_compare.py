"""Benchmark comparison: forward, backward, optimizer and step of all runs, timed by themselves."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.paired import Ratio, adjusted, compared, no_interval
from profkit.core.formatting import counted, duration
from profkit.core.result import Abstention, Chart, Finding, Result, Severity, table
from profkit.core.settings import Settings, known


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/benchmark_compare.yaml``."""

    reference: str = ""
    """Run that the others are compared with; empty takes the first."""

    spread_share: float = 0.1
    """Quartile range over median from which a time is reported to vary, as torch's Compare does."""

    confidence: float = 0.95
    """Least probability that a report in which no two runs differ announces no difference."""


_CHARTS = (
    Chart(
        kind="bar",
        title="Median time of each part",
        table="cells",
        x="run",
        y=("median_ns",),
        color="part",
        horizontal=True,
    ),
)


@analysis(title="Parts of a step, benchmarked", across="runs")
def analyze(benchmarks: pd.DataFrame, config: Config) -> Result:
    """How do the parts of a step differ between runs, as torch.utils.benchmark compares them?

    Each part ran again and again on one batch, on every rank at once, until the GPU was done;
    what it needs before it is not counted. A time is the median of the measurements of all
    repeats on the slowest rank. Outside a step there is nothing to overlap with, so that the parts
    may sum up to more than the step. A difference is announced if it is beyond chance over the
    repeats, with all pairs taken together.
    """
    benchmarks = benchmarks[benchmarks["call_ns"].notna()]
    if benchmarks.empty:
        return Result.abstain("times of the parts of a step", "nothing was benchmarked")
    cells = _cells(benchmarks)
    runs = list(dict.fromkeys(cells["run"]))
    first = config.reference or runs[0]
    known("run", first, dict.fromkeys(runs))
    ratios = _ratios(cells, first, config.confidence)
    wide = _wide(cells)
    return Result(
        findings=tuple(_findings(ratios, first, config.confidence)),
        tables={
            "compare": table(
                wide, title="Median time of each part", note="As torch.utils.benchmark.Compare."
            ),
            "cells": table(
                _beside(cells, ratios), title=f"Times of each part, and over those of {first}"
            ),
        },
        charts=_CHARTS,
        abstentions=(*_varying(cells, config.spread_share), *_unsure(runs, ratios)),
    )


def _cells(benchmarks: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run and part: median and quartiles, on the slowest rank of each repeat."""
    key = ["run", "part", "repeat"]
    by_rank = benchmarks.groupby([*key, "rank"], observed=True, sort=False)["call_ns"].median()
    slowest = by_rank.reset_index().sort_values("call_ns").drop_duplicates(key, keep="last")
    kept = benchmarks.merge(slowest[[*key, "rank"]], on=[*key, "rank"])
    grouped = kept.groupby(["run", "part"], observed=True, sort=False)
    times = grouped["call_ns"]
    cells = pd.DataFrame(
        {
            "median_ns": times.median(),
            "low_quartile_ns": times.quantile(0.25),
            "high_quartile_ns": times.quantile(0.75),
            "measurements": times.size(),
            "threads": grouped["threads"].first(),
            "device": grouped["device"].first().astype(object),
        }
    ).reset_index()
    repeats = kept.groupby(key, observed=True)["call_ns"].median()
    text = {name: cells[name].astype(object) for name in ("run", "part")}
    by_repeat = [
        dict(repeats.loc[cell].items()) for cell in zip(cells["run"], cells["part"], strict=True)
    ]
    made = cells.assign(**text, by_repeat=pd.Series(by_repeat, dtype=object))
    # In the order in which runs were selected and parts measured.
    order = {name: list(benchmarks[name].astype(object).unique()).index for name in ("run", "part")}
    return made.sort_values(
        ["run", "part"], key=lambda column: column.map(order[str(column.name)]), ignore_index=True
    )


def _ratios(cells: pd.DataFrame, reference: str, confidence: float) -> dict[tuple[str, str], Ratio]:
    """Return each part's time over that of the reference, repeat by repeat."""
    columns = (cells[name] for name in ("run", "part", "by_repeat"))
    by_cell: dict[tuple[str, str], dict[int, float]] = {
        (run, part): by_repeat for run, part, by_repeat in zip(*columns, strict=True)
    }
    pairs = {
        (run, part): compared(by_repeat, by_cell[reference, part], confidence=confidence)
        for (run, part), by_repeat in by_cell.items()
        if run != reference and (reference, part) in by_cell
    }
    return {key: ratio for key, ratio in pairs.items() if ratio is not None}


def _wide(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per part and a column per run, as torch.utils.benchmark.Compare prints them."""
    parts, runs = (list(dict.fromkeys(cells[name])) for name in ("part", "run"))
    wide = cells.pivot_table(index="part", columns="run", values="median_ns").loc[parts, runs]
    return wide.rename(columns=lambda run: f"{run}_ns").reset_index()


def _beside(cells: pd.DataFrame, ratios: Mapping[tuple[str, str], Ratio]) -> pd.DataFrame:
    keys = list(zip(cells["run"], cells["part"], strict=True))
    spans = [ratios[key].interval if key in ratios else None for key in keys]
    return cells.drop(columns="by_repeat").assign(
        ratio=[ratios[key].ratio if key in ratios else math.nan for key in keys],
        low_ratio=[interval.low if interval else math.nan for interval in spans],
        high_ratio=[interval.high if interval else math.nan for interval in spans],
    )


def _findings(
    ratios: Mapping[tuple[str, str], Ratio], reference: str, confidence: float
) -> Iterator[Finding]:
    """Yield the largest difference of each part that is beyond chance."""
    sure = dict(zip(ratios, adjusted([ratio.p_value for ratio in ratios.values()]), strict=True))
    for part in dict.fromkeys(part for _, part in ratios):
        beyond = {
            run: ratio
            for (run, name), ratio in ratios.items()
            if name == part and ratio.interval and sure[run, name] <= 1 - confidence
        }
        if not beyond:
            continue
        run = max(beyond, key=lambda candidate: abs(math.log(beyond[candidate].ratio)))
        yield Finding(
            severity=Severity.INFO,
            message=f"The {part} of {run} takes {beyond[run].ratio:.3g} times as long as that of "
            f"{reference}, which is beyond chance in {counted(len(beyond), 'run')}.",
            metric=f"benchmark_compare.{part}_ratio",
            value=beyond[run].ratio,
            unit="ratio",
            evidence={"run": run, "reference": reference, "p_value": sure[run, part]},
        )


def _varying(cells: pd.DataFrame, most: float) -> Iterator[Abstention]:
    spread = (cells["high_quartile_ns"] - cells["low_quartile_ns"]) / cells["median_ns"]
    row: Any
    for row in cells[spread > most].itertuples():
        low, high = duration(row.low_quartile_ns), duration(row.high_quartile_ns)
        yield Abstention(
            what=f"a sure time of the {row.part} of {row.run}",
            reason=f"half of its measurements lie between {low} and {high}: something else runs, "
            "or clocks move; raise tools.torch_benchmark.measurements",
        )


def _unsure(runs: list[str], ratios: Mapping[tuple[str, str], Ratio]) -> Iterator[Abstention]:
    if len(runs) == 1:
        reason = "there is one run: sweep over something"
        yield Abstention(what="differences between runs", reason=reason)
    elif unsure := [ratio.repeats for ratio in ratios.values() if ratio.interval is None]:
        reason = no_interval(min(unsure))
        yield Abstention(what="whether differences between runs are chance", reason=reason)
