"""What of the idle time of a GPU is the profiler's: it slows the CPU down, and not the GPU."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from profkit.analyze.division import gpu, names
from profkit.analyze.division.cpu_threads import PYTHON
from profkit.analyze.shared.step_times import UNPROFILED
from profkit.core.result import Metric, Result

OVERHEAD = "profiler_overhead"
"""Id of the cause."""

_CAUSES = tuple(f"{gpu.IDLE}.{name}" for name in (PYTHON, "loading_data", "compiler"))
"""Causes of idle time in which the CPU works."""

_MOST_OVERHEAD, _MOST_CHANCE, _EVEN = 0.1, 0.2, 0.05
"""How much longer steps may take with the profiler, and shorter by chance, and what is the same."""

_LEAST_MS = 1e-6
"""A nanosecond: what is left of less is rounding."""


def of_tax(observer_tax: Result | None, recordings: Iterable[str]) -> dict[str, Any]:
    """Return how much longer steps take with the tool, and those that it traced without it."""
    slowdown = _slowdown(observer_tax, recordings)
    return {"slowdown": slowdown, "over_usual": _over_usual(observer_tax, recordings)}


def _slowdown(observer_tax: Result | None, recordings: Iterable[str]) -> Metric | None:
    """Return how much longer steps take with the tool that the causes come from, if known."""
    known = observer_tax.metrics if observer_tax else {}
    found = (known.get(f"{tool}_slowdown_ratio") for tool in recordings)
    return next((metric for metric in found if metric is not None), None)


def _over_usual(observer_tax: Result | None, recordings: Iterable[str]) -> float:
    """Return the time of the traced steps in the unprofiled run over that of its steps; or 1."""
    if observer_tax is None or "by_tool" not in observer_tax.tables:
        return 1.0
    rows = observer_tax.tables["by_tool"].records()
    of_traced = [float(row["baseline_ns"]) for row in rows if row["tool"] in {*recordings}]
    unprofiled = observer_tax.metrics[UNPROFILED].value
    return next(iter(of_traced), unprofiled) / unprofiled


def is_usual(slowdown: Metric) -> bool:
    """Say whether steps take about as long with the profiler as they may."""
    return 1 - _MOST_CHANCE <= slowdown.value <= 1 + _MOST_OVERHEAD


def in_words(slowdown: Metric) -> str:
    """Return how much longer steps take with the profiler, as a sentence."""
    known = slowdown.interval
    chance = "; that may be chance" if known is not None and known.low <= 1 <= known.high else ""
    if slowdown.value < 1 - _MOST_CHANCE:
        times = f"with the profiler the same steps took {slowdown.value:.0%} of the time{chance}"
        return f"The two runs differ: {times}. `--again` repeats both."
    ratio = f"{slowdown.value:.2f} times"
    said = f"about as long ({ratio})" if abs(slowdown.value - 1) < _EVEN else f"{ratio} as long"
    return f"The same steps take {said} with the profiler{chance}."


def without_overhead(rows: pd.DataFrame, slowdown: float, unprofiled_ms: float) -> pd.DataFrame:
    """Return the causes with the profiler's part of the GPU's idle time as a cause of its own.

    `rows` are those of `rank_causes.tree_of`. With the profiler the same steps take `slowdown`
    times as long, and steps as a rule longer than `unprofiled_ms`: the smaller of both counts, as a
    few steps differ by chance. Kernels are not slowed, so what is more is time in which the GPU
    waits for a CPU that works, as far as there is so much: of each such cause its share. Causes sum
    to the step as before; those of ranks without a GPU stay as they are.
    """
    parts = [_of_rank(own, slowdown, unprofiled_ms) for _, own in rows.groupby("rank", sort=False)]
    return pd.concat(parts, ignore_index=True)


def matches_without_overhead(matches: pd.DataFrame, causes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table of matches with the same share taken off their idle time.

    `causes` are those of the rank that they are about, from `without_overhead`. What was found in
    some steps alone was seen in steps that no profiler slowed.
    """
    times = causes.set_index("id")["ms_per_step"]
    overhead_ms = float(times.get(OVERHEAD, 0.0))
    if not overhead_ms or not len(matches):
        return matches
    left_ms = float(times[times.index.isin(_CAUSES)].sum())
    left = left_ms / (left_ms + overhead_ms)
    made = [_slowed_less(row, left) for row in matches.to_dict("records")]
    return matches.assign(**{name: [row[name] for row in made] for name in ("covered_ms", "also")})


def _slowed_less(row: Mapping[Any, Any], left: float) -> Mapping[Any, Any]:
    if row["in_steps"]:
        return row
    also = json.loads(row["also"])
    own_ms = row["covered_ms"] - sum(also.values())
    also = {cause: ms * (left if _is_slowed(cause) else 1.0) for cause, ms in also.items()}
    own_ms *= left if _is_slowed(row["cause"]) else 1.0
    return {"covered_ms": own_ms + sum(also.values()), "also": json.dumps(also)}


def _is_slowed(cause: str) -> bool:
    return any(above in _CAUSES for above in names.parts_of(cause))


def _of_rank(rows: pd.DataFrame, slowdown: float, unprofiled_ms: float) -> pd.DataFrame:
    ids, times = rows["id"], rows["ms_per_step"]
    step_ms = float(times[~ids.str.contains(".", regex=False)].sum())
    slowed_ms = float(times[ids.isin(_CAUSES)].sum())
    overhead_ms = min(step_ms * (1 - 1 / slowdown), step_ms - unprofiled_ms, slowed_ms)
    if overhead_ms <= 0:
        return rows
    left = 1 - overhead_ms / slowed_ms
    idle = ids == gpu.IDLE
    within = ids.map(_is_slowed).astype(bool)
    factor = pd.Series(1.0, index=rows.index).mask(within, left)
    factor = factor.mask(idle, 1 - overhead_ms / times.where(idle, math.inf))
    counted = ["ms_per_step", "median_ms", "gain_ms", "share"]
    made = rows.assign(**{name: rows[name] * factor for name in counted})
    made = made[made["ms_per_step"] >= _LEAST_MS]
    own = {
        "rank": rows["rank"].iloc[0],
        "id": OVERHEAD,
        "title": "Profiler overhead",
        "ms_per_step": overhead_ms,
        "median_ms": math.nan,
        "gain_ms": 0.0,
        "share": overhead_ms / step_ms,
        "place": "",
        "evidence": "{}",
    }
    return pd.concat([made, pd.DataFrame([own])]).sort_values(
        ["ms_per_step", "id"], ascending=[False, True], ignore_index=True
    )
