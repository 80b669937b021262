"""Python hotspots: the functions and lines in which Python spends its time, by rank."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import ByTool, analysis
from profkit.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.settings import Settings
from profkit.wording import shortened

_LINE = re.compile(r":\d+(?=\)$)")
_SHOWN = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/python_hotspots.yaml``."""

    least_samples: PositiveInt = 50
    """Samples of a rank below which shares are chance, and are said to be."""

    max_rows: PositiveInt = 200
    """Rows kept of each table, those with the most time of their own."""


@analysis(title="Python hotspots")
def analyze(stacks: ByTool, config: Config) -> Result:
    """Tell which functions and lines were running when Python's stacks were sampled.

    Self time is that of samples in which a function was innermost: its own code, and whatever it
    calls that is no Python, such as operators. Total time is that of samples in which it was on
    the stack, once however often it called itself. Shares are of all sampled time of the rank, by
    all its threads; times are the mean over repeats. Each sampler is by itself: they see different
    threads and stretches of a run.
    """
    sampled = {tool: _timed(rows) for tool, rows in stacks.items()}
    parts = [_counted(rows, tool) for tool, rows in sampled.items() if len(rows)]
    if not parts:
        return Result.abstain("Python's time by function", "no stack was sampled")
    lines = pd.concat(parts, ignore_index=True)
    functions = _summed(lines, ["tool", "rank", "function"])
    by_line = _summed(lines, ["tool", "rank", "line"])
    kept = {"limit": config.max_rows}
    return Result(
        findings=tuple(_findings(functions)),
        metrics=_metrics(functions),
        tables={
            "functions": table(functions, title="Time by function", **kept),
            "lines": table(by_line, title="Time by line", **kept),
            "chart": table(_chart(functions), title="Functions with the most time of their own"),
        },
        charts=(
            Chart(
                kind="bar",
                title="Share of the sampled time in the function itself, mean of the ranks",
                table="chart",
                x="function",
                y=("self_share",),
                color="tool",
                horizontal=True,
            ),
        ),
        abstentions=tuple(_unsure(sampled, config.least_samples)),
    )


def _timed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the stacks that stand for time; others are of allocations."""
    return rows[(rows["duration_ns"] >= 0).to_numpy()]


def _counted(rows: pd.DataFrame, tool: str) -> pd.DataFrame:
    """Return a row for each stack and each different line on it: self and total time.

    Functions are counted once a stack by `total_function_ns`, lines by `total_line_ns`.
    """
    repeats = rows.groupby("rank", observed=True)["repeat"].nunique()
    of_rank = rows.groupby("rank", observed=True)["duration_ns"].sum()
    texts = rows["stack"].astype(object).to_numpy()
    frames = [_once(str(text).split(";")) for text in texts]
    # One frame to a row, of the stack at this position.
    position = np.repeat(np.arange(len(rows)), [len(each) for each in frames])
    flat = [frame for each in frames for frame in each]
    made = pd.DataFrame(flat, columns=["line", "function", "is_leaf", "is_first"])
    own = rows[["rank", "duration_ns", "samples"]].iloc[position].reset_index(drop=True)
    time_ns = own["duration_ns"] / own["rank"].map(repeats)
    return made.assign(
        tool=tool,
        rank=own["rank"],
        self_ns=time_ns * made["is_leaf"],
        total_line_ns=time_ns,
        total_function_ns=time_ns * made["is_first"],
        rank_ns=own["rank"].map(of_rank / repeats),
    )


def _once(frames: list[str]) -> list[tuple[str, str, bool, bool]]:
    """Return each line of a stack once: its function, and whether it is innermost and first."""
    seen: set[str] = set()
    found: dict[str, tuple[str, str, bool, bool]] = {}
    for frame in frames:
        function = _LINE.sub("", frame)
        if frame not in found:
            found[frame] = frame, function, frame == frames[-1], function not in seen
        seen.add(function)
    return list(found.values())


def _summed(lines: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return self and total time of each `key`, whose last column names what is counted."""
    total = f"total_{key[-1]}_ns"
    sums = lines.groupby(key, observed=True).agg(
        self_ns=("self_ns", "sum"), total_ns=(total, "sum"), rank_ns=("rank_ns", "first")
    )
    rows = sums.reset_index()
    for name in ("self", "total"):
        rows[f"{name}_share"] = rows[f"{name}_ns"] / rows["rank_ns"].where(rows["rank_ns"] > 0)
        rows[f"{name}_ns"] = rows[f"{name}_ns"].round().astype(np.int64)
    ordered = rows.sort_values(["self_ns", "total_ns"], ascending=False, kind="stable")
    return ordered.drop(columns="rank_ns").reset_index(drop=True)


def _chart(functions: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share over ranks of the functions with the most."""
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
        mine = means.loc[str(tool)]
        yield str(tool), str(mine.idxmax()), float(mine.max()), rows["rank"].nunique()


def _findings(functions: pd.DataFrame) -> Iterator[Finding]:
    for tool, function, share, ranks in _hottest(functions):
        yield Finding(
            severity=Severity.INFO,
            message=f"{share:.0%} of the time that {tool} sampled ({ranks} rank(s)) is spent in "
            f"{shortened(function)} itself, and in operators that it calls.",
            metric=f"python_hotspots.{tool}_hottest_self_share",
            value=share,
            unit="share",
            evidence={"tool": tool, "function": function},
        )


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
                reason = f"only {count} samples were taken: run more steps, or sample more often"
                what = f"how sure the shares of rank {rank} by {tool} are"
                yield Abstention(what=what, reason=reason)
