"""Costs of a step: operators, kernels, modules and lines with their part of it, which add up."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import Columns, analysis
from profkit.analyze.division import names
from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.tables.kernel_names import library, readable

_KEYS = ["cause", "module", "operator", "kernel"]
_LINE = re.compile(r"(?P<file>[^\s(]+)\(\d+\): ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/step_costs.yaml``."""

    max_rows: PositiveInt = 2000
    """Rows kept of each rank; what the smaller ones take is one row of each cause."""

    max_ranks: PositiveInt = 16
    """Ranks kept: the one that decides the step time, and the first others."""


@analysis(title="Costs of a step")
def analyze(
    causes: Result, kernels: Annotated[pd.DataFrame, Columns("name")], config: Config
) -> Result:
    """Which operator, kernel, module, file or library takes most of a step?

    Each instant of a step counts once: for the kernel that runs, or else for what the CPU did that
    should have launched the next. So the rows add up to the step. Where kernels run side by side
    they share the time. Means over the steady steps of a rank and over its repeats.
    """
    if "parts" not in causes.tables:
        return Result.abstain("costs of a step", "the step time was not divided")
    parts = _frame(causes, "parts")
    ranks = _frame(causes, "ranks").sort_values(["decisive", "rank"], ascending=[False, True])
    libraries = {readable(str(name)): library(str(name)) for name in kernels["name"].unique()}
    named = _frame(causes, "causes")
    titles = dict(zip(named["id"].tolist(), named["title"].tolist(), strict=True))
    shown = [int(rank) for rank in ranks["rank"] if (parts["rank"] == rank).any()]
    kept = {
        rank: _columns(_of_rank(parts[parts["rank"] == rank], config.max_rows), titles, libraries)
        for rank in shown[: config.max_ranks]
    }
    if not kept:
        return Result.abstain("costs of a step", "no part of the step time was recorded")
    first, *others = kept
    drawing = Drawing(
        kind="costs",
        title="Costs of a step",
        data={"ranks": list(kept), "ranks_recorded": len(shown), "first": kept[first]},
        details=tuple(Detail.of(f"rank {rank}", kept[rank]) for rank in others),
    )
    return Result(drawings={"step_costs": drawing})


def _frame(result: Result, name: str) -> pd.DataFrame:
    found = result.tables[name]
    return pd.DataFrame(list(found.rows), columns=list(found.columns))


def _of_rank(parts: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the mean over the repeats of each part, the largest first."""
    measures = ["calls_per_step", "ms_per_step"]
    rows = parts.groupby(_KEYS, sort=False)[measures].sum() / parts["repeat"].nunique()
    rows = rows.reset_index().sort_values("ms_per_step", ascending=False, kind="stable")
    kept, small = rows.iloc[:most], rows.iloc[most:]
    if small.empty:
        return kept
    rest = small.groupby("cause", as_index=False)[measures].sum()
    return pd.concat([kept, rest.assign(module="", operator="", kernel="")])


def _columns(
    rows: pd.DataFrame, titles: dict[str, str], libraries: dict[str, str]
) -> dict[str, Any]:
    """Return the rows as columns of numbers that refer to one list of texts."""
    texts: dict[str, int] = {}

    def codes(values: Iterator[str]) -> list[int]:
        return [texts.setdefault(value, len(texts)) for value in values]

    lines = (_LINE.match(operator) for operator in rows["operator"])
    named = {
        "cause": (_title(cause, titles) for cause in rows["cause"]),
        "module": iter(rows["module"]),
        "operator": iter(rows["operator"]),
        "kernel": iter(rows["kernel"]),
        "library": (libraries.get(kernel, "") for kernel in rows["kernel"]),
        "file": (line["file"] if line else "" for line in lines),
    }
    found: dict[str, Any] = {name: codes(values) for name, values in named.items()}
    measures = {name: rows[name].round(6).tolist() for name in ("calls_per_step", "ms_per_step")}
    return {**found, **measures, "texts": list(texts)}


def _title(cause: str, titles: dict[str, str]) -> str:
    """Return the names of the cause and of those above it, the widest first."""
    return ": ".join(titles.get(part, names.title(part)) for part in names.parts_of(cause))
