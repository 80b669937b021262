"""Python hotspots: the functions and lines in which Python spends its time, by rank."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import ByTool, analysis
from profkit.analyze.shared.sampled_graph import sampled_graph
from profkit.analyze.shared.stack_frames import lines_of_stacks, of_program, self_and_total
from profkit.core.formatting import agreeing, duration
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings

_SHOWN = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/python_hotspots.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain, of samplers that know when they look."""

    least_samples: PositiveInt = 50
    """Samples of a rank below which its shares are reported as uncertain."""

    max_rows: PositiveInt = 200
    """Rows kept of each table, those with the most time of their own."""

    max_frames: PositiveInt = 3000
    """Frames of the flame graph of a rank; of more the smallest are joined."""


_CHARTS = (
    Chart(
        kind="bar",
        title="Share of the sampled time in the function itself, mean of the ranks",
        table="chart",
        x="function",
        y=("self_share",),
        color="tool",
        horizontal=True,
    ),
)


@analysis(title="Python hotspots")
def analyze(sampled_stacks: ByTool, config: Config) -> Result:
    """Which functions and lines were running when Python's stacks were sampled?

    Self time is that of samples in which a function was innermost: its own code, and whatever it
    calls that is no Python, such as operators. Total time is that of samples in which it was on
    the stack, once however often it called itself. Shares are of all sampled time of the program on
    the rank, by all its threads, without profkit itself and without the time in which modules are
    loaded; times are the mean over repeats. Each sampler is by itself: they see different
    threads and stretches of a run. pyinstrument's samples are those of the measured steps; py-spy
    does not say when it looked, so that its are of the whole program.
    """
    of_tools = {
        tool: of_program(_measured(rows, config.skip_first), imports=False)
        for tool, rows in sampled_stacks.items()
    }
    parts = [
        lines_of_stacks(rows, "duration_ns").assign(tool=tool)
        for tool, rows in of_tools.items()
        if len(rows)
    ]
    if not parts and any(map(len, sampled_stacks.values())):
        reason = "all samples are of start-up: run more steps"
        return Result.abstain("Python's time by function", reason)
    if not parts:
        reason = "no stack was sampled; nsys samples with tools.nsys.sample=process-tree"
        return Result.abstain("Python's time by function", reason)
    lines = pd.concat(parts, ignore_index=True)
    functions = self_and_total(lines, ["tool", "rank", "function"], "ns")
    by_line = self_and_total(lines, ["tool", "rank", "line"], "ns")
    most, left_out = config.max_rows, _left_out(sampled_stacks, of_tools)
    return Result(
        metrics=_metrics(functions),
        tables={
            "functions": table(
                functions, title="Time by function", note=left_out, limit=most, sums=("self_ns",)
            ),
            "lines": table(by_line, title="Time by line", limit=most, sums=("self_ns",)),
            "chart": table(_chart(functions), title="Functions with the most time of their own"),
        },
        charts=_CHARTS,
        drawings={
            "sampled_frames": sampled_graph(
                "Sampled time by Python stack",
                {tool: rows for tool, rows in of_tools.items() if len(rows)},
                "duration_ns",
                config.max_frames,
            )
        },
        abstentions=tuple(_unsure(of_tools, config.least_samples)),
    )


def _measured(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return what was sampled in steps that count, or all where no step is known."""
    for first in (skip_first, 0):
        if (inside := (rows["step"] >= first).to_numpy()).any():
            return rows[inside]
    return rows


def _left_out(sampled: Mapping[str, pd.DataFrame], kept: Mapping[str, pd.DataFrame]) -> str:
    """Return how much of the samples is not of the program, by tool."""
    sums = {tool: int(rows["duration_ns"].sum()) for tool, rows in sampled.items()}
    rest = {tool: sums[tool] - int(kept[tool]["duration_ns"].sum()) for tool in sums}
    parts = [
        f"{duration(rest[tool])} of {duration(sums[tool])} by {tool}" for tool in sums if rest[tool]
    ]
    return (
        "Without start-up, warm-up, imports, profkit itself and threads that look for work: "
        f"{', '.join(parts)}."
        if parts
        else ""
    )


def _chart(functions: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share over ranks of the functions with the largest."""
    means = _means(functions).reset_index(name="self_share")
    names = means.groupby("function")["self_share"].max().nlargest(_SHOWN).index
    shown = means[means["function"].isin(names)]
    return shown.sort_values("self_share", ascending=False, ignore_index=True, kind="stable")


def _means(functions: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean share of self time over the ranks; a rank that never saw it counts as 0."""
    ranks = functions.groupby("tool")["rank"].nunique()
    sums = functions.groupby(["tool", "function"])["self_share"].sum()
    found: pd.Series[float] = sums / ranks.reindex(sums.index.get_level_values("tool")).to_numpy()
    return found


def _hottest(functions: pd.DataFrame) -> Iterator[tuple[str, str, float, int]]:
    """Yield each tool, its hottest function, the share of it and the number of ranks."""
    means = _means(functions)
    for tool, rows in functions.groupby("tool", sort=False):
        shares: Any = means.loc[str(tool)]
        yield str(tool), str(shares.idxmax()), float(shares.max()), rows["rank"].nunique()


def _metrics(functions: pd.DataFrame) -> dict[str, Metric]:
    return {
        f"{tool}_hottest_self_share": Metric(
            value=share, unit="share", title=f"Share of the hottest function, sampled by {tool}"
        )
        for tool, _, share, _ in _hottest(functions)
    }


def _unsure(sampled: Mapping[str, pd.DataFrame], least: int) -> Iterator[Abstention]:
    for tool, rows in sampled.items():
        # Stacks without a number of samples have times that were measured.
        counts: Any = rows[(rows["samples"] >= 0).to_numpy()].groupby("rank", observed=True)
        for rank, count in counts["samples"].sum().items():
            if count < least:
                reason = agreeing(
                    count,
                    "only {} sample[s] [was|were] taken: run more steps, or sample more often",
                )
                what = f"how sure the shares of rank {rank} by {tool} are"
                yield Abstention(what=what, reason=reason)
