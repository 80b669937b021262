"""Warp states: what the warps of each measured kernel wait for between two instructions."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    by_kernel,
    kernel_of,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Abstention, Chart, Result, table
from profkit.core.settings import Settings

_COLUMNS = {
    "cycles_per_instruction": ["smsp__average_warp_latency_per_inst_issued.ratio"],
    "active_warps": ["smsp__warps_active.avg.per_cycle_active"],
    "eligible_warps": ["smsp__warps_eligible.avg.per_cycle_active"],
    "no_eligible_percent": ["smsp__issue_inst0.avg.pct_of_peak_sustained_active"],
    "threads_per_warp": ["smsp__thread_inst_executed_per_inst_executed.ratio"],
}
_SCHEDULERS = ("active_warps", "eligible_warps", "no_eligible_percent")
_SECTION_OF = {
    name: "SchedulerStats" if name in _SCHEDULERS else "WarpStateStats" for name in _COLUMNS
}
_SAMPLES = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+)")
# Cycles per instruction; the last counts samples, which share out in the same way.
_STALLS = (
    re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(\w+)\.ratio"),
    _SAMPLES,
)
_SECTIONS = ("WarpStateStats", "SchedulerStats", "SourceCounters")
# The warp issues, or another one is chosen: it waits for nothing.
_AT_WORK = ("selected", "not_selected")
_TRY = {
    "long_scoreboard": "It waits for global or local memory: move fewer bytes, reuse them in "
    "caches or shared memory, load earlier (asynchronous copies), or have more warps to hide it.",
    "short_scoreboard": "It waits for shared memory or special functions: resolve bank conflicts, "
    "use fewer transcendental functions.",
    "barrier": "Warps wait for one another at __syncthreads: smaller blocks, or less work between "
    "barriers that differs by warp.",
    "math_pipe_throttle": "A pipe is full: see the compute workload for which.",
    "lg_throttle": "Too many requests to global memory are under way: use wider ones.",
    "mio_throttle": "Too many requests to shared memory or special functions are under way.",
    "tex_throttle": "Too many requests to textures or to the L1 cache are under way.",
    "wait": "It waits for fixed latencies of instructions: more independent work per thread "
    "(unrolling), or more warps.",
    "imc_miss": "It misses the cache of constants: have fewer arguments and constants, or a longer "
    "kernel.",
    "no_instruction": "It misses the cache of instructions: unroll less, or fuse less.",
    "branch_resolving": "It waits for branches: have fewer of them in inner loops.",
    "drain": "It waits for its last stores: write less, or let more threads write evenly.",
    "membar": "It waits for memory fences: have fewer of them.",
    "sleeping": "All threads sleep by nanosleep: the program waits for something itself.",
    "dispatch_stall": "The dispatcher holds it back, by conflicts of registers for example.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/warp_states.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Warp states")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """What do warps wait for: how many cycles does one spend in each state per instruction?

    Waiting matters only where schedulers find no warp that can issue (no eligible): a kernel with
    warps enough hides it. Shares are of all cycles between two instructions of a warp, with those
    in which it was issuing or passed over for another.
    """
    if measured_kernels.empty:
        return NOTHING
    stalls = _stalls(kernel_metrics["metric"].astype(str).unique())
    columns = {reason: names for reason, names in stalls.items() if reason not in _COLUMNS}
    rows = by_kernel(measured_kernels, kernel_metrics, {**_COLUMNS, **columns})
    shares = _shares(rows, columns)
    kept = [name for name in rows.columns if name not in columns]
    tables = {
        "kernels": shown(rows[kept], "Schedulers and warps", limit=config.max_rows),
        "reasons": table(
            shares.assign(what_helps=shares["reason"].map(_TRY).fillna("")),
            title="What warps wait for",
            limit=20 * config.max_rows,
        ),
        **rules(measured_kernels, kernel_advice, _SECTIONS),
    }
    return Result(
        tables=tables,
        charts=_charts(shares),
        abstentions=(*_abstentions(shares), *unknown(rows, _SECTION_OF)),
    )


def _stalls(metrics: Iterable[str]) -> dict[str, list[str]]:
    """Return the metrics of each reason, from the first kind of metrics that was recorded."""
    names = list(metrics)
    for kind in _STALLS:
        found = {match[1]: [name] for name in names if (match := kind.fullmatch(name))}
        # Samples are counted twice: once more for those in which nothing was issued.
        plain = {
            key: metric_names
            for key, metric_names in found.items()
            if not key.endswith("_not_issued")
        }
        if plain:
            return dict(sorted(plain.items()))
    return {}


def _shares(rows: pd.DataFrame, metrics: Mapping[str, list[str]]) -> pd.DataFrame:
    """Return kernel, reason and share, the longest kernels first; none where the whole is unknown.

    The whole are the cycles between two instructions, or all samples; not the sum of the reasons
    that happen to be recorded.
    """
    reasons = list(metrics)
    if any(_SAMPLES.fullmatch(name) for names in metrics.values() for name in names):
        # A sum of some of the reasons is no whole.
        is_whole = {*_AT_WORK} <= {*reasons}
        whole = rows[reasons].sum(axis=1) if is_whole else pd.Series(math.nan, rows.index)
    else:
        whole = rows["cycles_per_instruction"]
    parts = rows[reasons].div(whole.where(whole > 0), axis=0)
    labels = [kernel_of(row) for _, row in rows.iterrows()]
    found = [
        {"kernel": label, "reason": reason, "waiting_share": float(share)}
        for label, (_, part) in zip(labels, parts.iterrows(), strict=True)
        for reason, share in part.sort_values(ascending=False).items()
        if share > 0
    ]
    return pd.DataFrame(found, columns=["kernel", "reason", "waiting_share"])


def _charts(shares: pd.DataFrame) -> tuple[Chart, ...]:
    if shares.empty:
        return ()
    return (
        Chart(
            kind="stacked_bar",
            title="What warps do between two instructions",
            table="reasons",
            x="kernel",
            y=("waiting_share",),
            color="reason",
            horizontal=True,
        ),
    )


def _abstentions(shares: pd.DataFrame) -> tuple[Abstention, ...]:
    if len(shares):
        return ()
    reason = "section WarpStateStats was not collected: set tools.ncu.set to detailed or full"
    return (Abstention(what="what warps wait for", reason=reason),)
