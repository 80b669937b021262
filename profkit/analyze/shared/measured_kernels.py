"""Kernels that Nsight Compute measured, one row each: shared by the analyses of its metrics."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from profkit.core.formatting import agreeing, shortened
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.tables.kernel_names import short_names

WHERE = ["rank", "repeat", "kernel"]
SHAPE = ["function", "grid", "block"]
_ALWAYS = frozenset({*SHAPE, "launches", "duration_ns", "name"})
DURATION = "gpu__time_duration.sum"
DRAM = tuple(
    f"{unit}_throughput.avg.pct_of_peak_sustained_elapsed" for unit in ("gpu__dram", "dram_")
)
"""How near DRAM comes to its peak, in percent, as newer and older versions call it."""
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
"""The same of the second cache, for which all versions have one name."""

NOTHING = Result.abstain("counters of kernels", "Nsight Compute measured no kernel")

_UNIT = re.compile(r"_(?:percent|share|hz|bytes_per_s|bytes)$")
_KINDS = {"error": 0, "optimisation": 1, "warning": 2, "information": 3}


def launches(measured_kernels: pd.DataFrame) -> pd.DataFrame:
    """Return `measured_kernels` with ``launched``, the number of the launch.

    Several pages of one report may describe the same launch, which has one number. Functions have
    names that people know: many are only called ``Kernel``.
    """
    same = ["pid", "launch", "name", "repeat"]
    stated = (measured_kernels["pid"] >= 0) & (measured_kernels["launch"] >= 0)
    own = pd.Series(-1 - np.arange(len(measured_kernels)), index=measured_kernels.index)
    groups = measured_kernels.groupby(same, observed=True, sort=False).ngroup()
    names = measured_kernels["name"].astype(str)
    functions = names.map(short_names(filter(None, names.unique()))).astype("str")
    functions = functions.fillna(measured_kernels["function"].astype(str))
    return measured_kernels.assign(launched=groups.where(stated, own), function=functions)


def by_launch(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    columns: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """Return one row per measured launch with the metrics that `columns` names.

    Each column is the first of its metrics that is known, NaN where none is. Other columns:
    function, name, grid, block, device_name, rank, kernel and launches (how many are in it: 1).
    """
    launched = launches(measured_kernels)
    wanted = {name for names in columns.values() for name in names}
    rows = kernel_metrics[kernel_metrics["metric"].isin(wanted)]
    rows = rows.merge(launched[[*WHERE, "launched"]], on=WHERE)
    wide = rows.astype({"metric": object}).pivot_table(
        index="launched", columns="metric", values="value", aggfunc="first", observed=True
    )
    first = launched.drop_duplicates("launched").set_index("launched")
    found = first[[*SHAPE, "name", "device_name", "rank", "repeat", "kernel"]].copy()
    for column, names in columns.items():
        known = wide.reindex(found.index).reindex(columns=list(names)).astype(np.float64)
        found[column] = known.bfill(axis=1).iloc[:, 0]
    texts = [*SHAPE, "name", "device_name"]
    return found.astype(dict.fromkeys(texts, object)).reset_index(drop=True)


def by_kernel(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    columns: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """Return one row per function and shape, the longest first: means over its launches.

    Columns: function, name, grid, block, launches, duration_ns, and those of `columns`.
    """
    rows = by_launch(measured_kernels, kernel_metrics, {"duration_ns": [DURATION], **columns})
    key = ["name", *SHAPE]
    groups = rows.groupby(key, sort=False, observed=True)
    numbers = groups[["duration_ns", *columns]].mean()
    made = numbers.assign(launches=groups.size()).reset_index()
    shown = ["function", "grid", "block", "launches", "duration_ns", *columns, "name"]
    return made[shown].sort_values("duration_ns", ascending=False, ignore_index=True)


def shown(
    rows: pd.DataFrame,
    title: str,
    note: str = "",
    limit: int | None = None,
    *,
    with_durations: bool = False,
) -> Table:
    """Return rows by kernel as a table, without rows and columns that are all unknown.

    `with_durations` keeps the rows of which nothing but the duration is known.
    """
    always = _ALWAYS - {"duration_ns"} if with_durations else _ALWAYS
    counters = [name for name in rows.columns if name not in always]
    counted = rows[rows[counters].replace("", np.nan).notna().any(axis=1)]
    known = counted.drop(columns=SHAPE).dropna(axis="columns", how="all")
    known.insert(0, "kernel", [kernel_of(row) for _, row in counted.iterrows()])
    known["name"] = [shortened(name, 300) for name in counted["name"]]
    note = f"One row per kernel and shape, means over its measured launches. {note}".strip()
    if len(counted) < len(rows):
        lacking = len(rows) - len(counted)
        note += agreeing(lacking, " {} kernel[s] without these counters [is|are] left out.")
    return table(known, title=title, note=note, limit=limit)


def unknown(rows: pd.DataFrame, wanted: Mapping[str, str]) -> tuple[Abstention, ...]:
    """Return the columns of `wanted` that are unknown of every kernel, with the missing section."""
    sections: dict[str, list[str]] = {}
    for column, section in wanted.items():
        if not rows[column].notna().any():
            sections.setdefault(section, []).append(_UNIT.sub("", column).replace("_", " "))
    return tuple(
        Abstention(
            what=", ".join(names),
            reason=f"section {section} was not collected: add it to tools.ncu.sections",
        )
        for section, names in sections.items()
    )


def rules(
    measured_kernels: pd.DataFrame, kernel_advice: pd.DataFrame, sections: Iterable[str] = ()
) -> dict[str, Table]:
    """Return the advice of ncu's own rules in `sections` (all if none), the greatest gain first.

    The table is called ``rules``; there is none without advice.
    """
    kept = kernel_advice
    if wanted := set(sections):
        kept = kernel_advice[kernel_advice["section"].astype(str).isin(wanted)]
    rows = kept.merge(launches(measured_kernels)[[*WHERE, *SHAPE, "launched"]], on=WHERE)
    rows = rows.drop_duplicates(["launched", "rule", "message"])
    if rows.empty:
        return {}
    same = [*SHAPE, "section", "rule", "kind", "title", "speedup_scope"]
    rows = rows.astype(dict.fromkeys([*same, "message"], object))
    # Messages hold numbers of one launch; where there is a title, it is the same for all.
    rows["advice"] = rows["title"].where(rows["title"] != "", rows["message"])
    groups = rows.groupby([*same, "advice"], sort=False)
    gains = groups.agg(
        launches=("message", "size"),
        estimated_speedup_percent=("speedup_percent", "mean"),
        message=("message", "first"),
    ).reset_index()
    order = gains.assign(kind_order=gains["kind"].map(_KINDS)).sort_values(
        ["estimated_speedup_percent", "kind_order"], ascending=[False, True], na_position="last"
    )
    order = order.assign(kernel=[kernel_of(row) for _, row in order.iterrows()])
    columns = ["kernel", "title", "message", "estimated_speedup_percent", "speedup_scope", "kind"]
    rules_table = table(
        order[[*columns, "rule", "launches"]],
        title="What Nsight Compute's rules say",
        note="In the tool's own words. A global gain is one of the kernel, a local one of the part "
        "that the rule is about: local gains do not add up.",
        limit=200,
    )
    return {"rules": rules_table}


def kernel_of(row: "pd.Series[float]") -> str:
    """Return the kernel of a row for a sentence: ``gemm (grid 24x4x1, block 128x1x1)``."""
    function = shortened(str(row["function"]), 120)
    shape = [f"{name} {spelled(str(row[name]))}" for name in ("grid", "block") if row[name]]
    return f"{function} ({', '.join(shape)})" if shape else function


def spelled(shape: str) -> str:
    """Return a shape such as ``24x4x1`` of a JSON list."""
    return re.sub(r",\s*", "x", shape.strip("[]"))


def mean_of(
    rows: pd.DataFrame,
    column: str,
    unit: str,
    what: str,
    better: Literal["lower", "higher", "neither"] = "neither",
) -> dict[str, Metric]:
    """Return the mean of `column` over the time of one launch of each kernel, if it is known."""
    known = rows.dropna(subset=[column, "duration_ns"])
    time = known["duration_ns"].sum()
    if not time:
        return {}
    return {
        column: Metric(
            value=float((known[column] * known["duration_ns"]).sum() / time),
            unit=unit,
            title=f"{what}, mean over the time of one launch of each kernel",
            better=better,
        )
    }


def bars(title: str, *columns: str) -> Chart:
    """Return a bar chart of `columns` of the table by kernel."""
    return Chart(kind="bar", title=title, table="kernels", x="kernel", y=columns, horizontal=True)
