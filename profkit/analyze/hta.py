"""HTA: what Holistic Trace Analysis says of the same tables, without reading traces again."""

import logging
import math
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import NO_GPU_WORK, analysis
from profkit.analyze.shared.hta_trace import (
    CALLS,
    KERNELS,
    NOT_COUNTED,
    OPS,
    WHERE,
    of_use,
    trace,
)
from profkit.analyze.shared.large_table import LargeTable, tidy
from profkit.analyze.shared.representative_ranks import by_gpu_time, fitting, left_out
from profkit.analyze.shared.step_spans import spans
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings

if TYPE_CHECKING:
    from hta.trace_analysis import TraceAnalysis

Frames = dict[str, pd.DataFrame]

_TITLES = {
    "temporal_breakdown": "Idle, compute and other GPU time of each rank",
    "overlap": "Communication that compute hides, of the communication time of each rank",
    "kernel_types": "GPU time by type of kernel",
    "kernels": "Kernels with most time, by type and rank",
    "annotations": "Annotations on the GPU",
    "idle_time": "Idle time between kernels, by cause",
    "launches": "Kernels that are shorter than their launch or start late, by operator call",
    "operators": "Operators, their kernels and launch delays",
    "queue_length": "Operations that were launched and not done",
    "blocked": "Time blocked on a full queue",
    "bandwidth": "Bandwidth of copies and sets",
    "stragglers": "Ranks that start their longest communication late",
    "sequences": "Kernels that one operator launches again and again",
}
_RENAMED = {
    "idle_time": {"idle_time": "idle_time_us"},
    "launches": {"cpu_duration": "cpu_us", "gpu_duration": "gpu_us", "launch_delay": "delay_us"},
    "blocked": {"duration_at_max_queue_length": "at_full_queue_us",
                "relative_duration_at_max_queue_length": "at_full_queue_share"},
    "kernel_types": {"sum": "sum_us"},
}  # fmt: skip

_METRICS = {
    "idle_percent": (
        "temporal_breakdown",
        "idle_time_pctg",
        "GPU idle, of the time from first to last kernel",
    ),
    "compute_percent": (
        "temporal_breakdown",
        "compute_time_pctg",
        "Compute kernels, of the time from first to last kernel",
    ),
    "overlap_percent": (
        "overlap",
        "comp_comm_overlap_pctg",
        "Communication hidden by compute, of the communication time",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/hta.yaml``."""

    include_last_step: bool = False
    """Count the last step, which HTA leaves out unless it is the only one."""

    operators: bool = False
    """List operators with their kernels and delays; this takes most of the analysis' time."""

    sequences_of: str = ""
    """Part of the name of the operator whose kernel sequences are counted; empty for none."""

    consecutive_kernel_delay_us: int = 30
    """Gap up to which idle time counts as that between kernels, in µs; HTA says ns, takes µs."""

    most_ranks: int = 16
    """Ranks that HTA gets. Of more: the farthest from the median rank, and some others."""

    most_kernels: PositiveInt = 500_000
    """Kernels, copies and sets that HTA gets, of fewer ranks if need be: it needs 1 kB for each."""

    max_rows: int = 200
    """Rows kept of each table."""


@analysis(title="HTA")
def analyze(  # noqa: PLR0913, PLR0917 - the signature says what is read
    cpu_ops: Annotated[LargeTable, OPS],
    runtime_calls: Annotated[LargeTable, CALLS],
    kernels: Annotated[LargeTable, KERNELS],
    annotations: pd.DataFrame,
    synchronisations: pd.DataFrame,
    config: Config,
) -> Result:
    """What does Meta's Holistic Trace Analysis (HTA) say of the same recording?

    The numbers are HTA's in its conventions: the first repeat of each rank, from the first to the
    last kernel, the last step left out unless it is the only one; kernels are identified by name.
    Times are not rounded to µs as HTA does where it reads a trace. Counters of CUPTI are not here.
    """
    on_gpu = spans(kernels, WHERE)
    if on_gpu.empty:
        return Result.abstain("HTA", NO_GPU_WORK)
    every = config.operators or config.sequences_of
    most = min(config.most_ranks, fitting(kernels, config.most_kernels))
    ranks, count = by_gpu_time(on_gpu, most)
    tables = {
        "kernels": kernels.of_ranks(ranks),
        "annotations": annotations[annotations["rank"].isin(ranks)],
        "synchronisations": synchronisations[synchronisations["rank"].isin(ranks)],
    }
    ops, calls = (table.only(ranks) for table in (cpu_ops, runtime_calls))
    tables["cpu_ops"], tables["runtime_calls"] = (
        (ops.whole(), calls.whole())
        if every
        else of_use(ops, calls, tables["kernels"], tables["synchronisations"])
    )
    without = () if every else NOT_COUNTED
    made = over(trace(tables, include_last_step=config.include_last_step, without=without))
    del tables
    frames, failed = _run(made, config)
    setting = "most_ranks" if most == config.most_ranks else "most_kernels"
    failed += (*_stepless(made), *left_out("HTA's numbers", ranks, count, setting))
    shown = {name: _table(name, rows, config) for name, rows in frames.items() if len(rows)}
    return Result(
        metrics=_metrics(frames),
        tables=shown,
        charts=tuple(chart for chart in _CHARTS if chart.table in shown),
        abstentions=failed,
    )


def over(made: Any) -> "TraceAnalysis":
    """Return HTA's analyses of a trace in memory, instead of one that HTA reads."""
    from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415 - imports plotly and networkx

    analyses = TraceAnalysis.__new__(TraceAnalysis)
    analyses.t = made
    return analyses


def _run(made: "TraceAnalysis", config: Config) -> tuple[Frames, tuple[Abstention, ...]]:
    frames: Frames = {}
    failed = []
    size = sum(map(len, made.t.traces.values()))
    for name, function in _functions(made, config).items():
        tidy(size)
        try:
            # HTA warns of what pandas will change, and of missing ProfilerSteps.
            with warnings.catch_warnings(action="ignore"):
                frames |= function()
        except Exception as error:
            logging.getLogger(__name__).debug("HTA's %s", name, exc_info=True)
            reason = f"HTA failed on this trace: {str(error) or type(error).__name__}"[:300]
            failed.append(Abstention(what=f"HTA's {name}", reason=reason))
    return frames, tuple(failed)


def _stepless(made: "TraceAnalysis") -> tuple[Abstention, ...]:
    """Return the missing analysis of steps, where several ranks have none."""
    if len(made.t.get_ranks()) == 1 or made.t.get_iterations():
        return ()
    reason = "it looks at steps, and none was marked"
    return (Abstention(what="HTA's get_potential_stragglers", reason=reason),)


def _functions(made: "TraceAnalysis", config: Config) -> dict[str, Callable[[], Frames]]:
    """Return HTA's functions by name; each makes one table or more."""
    ranks = made.t.get_ranks()
    found: dict[str, Callable[[], Frames]] = {
        "get_temporal_breakdown": lambda: {
            "temporal_breakdown": made.get_temporal_breakdown(visualize=False)
        },
        "get_comm_comp_overlap": lambda: {"overlap": made.get_comm_comp_overlap(visualize=False)},
        "get_gpu_kernel_breakdown": lambda: dict(
            zip(
                ("kernel_types", "kernels"),
                made.get_gpu_kernel_breakdown(visualize=False),
                strict=True,
            )
        ),
        "get_gpu_user_annotation_breakdown": lambda: {
            "annotations": _filled(made.get_gpu_user_annotation_breakdown(visualize=False))
        },
        "get_idle_time_breakdown": lambda: {
            "idle_time": made.get_idle_time_breakdown(
                ranks=ranks,
                visualize=False,
                consecutive_kernel_delay=config.consecutive_kernel_delay_us,
            )[0]
        },
        "get_cuda_kernel_launch_stats": lambda: {
            "launches": _by_rank(made.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False))
        },
        "get_queue_length_summary": lambda: {
            "queue_length": _filled(made.get_queue_length_summary(ranks=ranks))
        },
        "get_time_spent_blocked_on_full_queue": lambda: {
            "blocked": _filled(
                made.get_time_spent_blocked_on_full_queue(
                    made.get_queue_length_time_series(ranks=ranks)
                )
            )
        },
        "get_memory_bw_summary": lambda: {
            "bandwidth": _filled(made.get_memory_bw_summary(ranks=ranks))
        },
    }
    if len(ranks) > 1 and made.t.get_iterations():
        found["get_potential_stragglers"] = lambda: {
            "stragglers": pd.DataFrame({"rank": made.get_potential_stragglers()})
        }
    if config.operators:
        found["get_aten_op_kernels_and_delay"] = lambda: {
            "operators": _by_rank(made.get_aten_op_kernels_and_delay(ranks=ranks))
        }
    if config.sequences_of:
        found["get_frequent_cuda_kernel_sequences"] = lambda: {
            "sequences": _sequences(made, ranks, config)
        }
    return found


def _sequences(made: "TraceAnalysis", ranks: list[int], config: Config) -> pd.DataFrame:
    # HTA also writes a copy of the trace with what it found, which is not needed.
    with tempfile.TemporaryDirectory() as folder:
        return _by_rank(
            {
                rank: made.get_frequent_cuda_kernel_sequences(
                    operator_name=config.sequences_of, output_dir=folder, rank=rank
                )
                for rank in ranks
            }
        )


def _by_rank(frames: dict[int, pd.DataFrame]) -> pd.DataFrame:
    rows = [frame.assign(rank=rank) for rank, frame in frames.items() if len(frame)]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def _filled(rows: pd.DataFrame | None) -> pd.DataFrame:
    return pd.DataFrame() if rows is None else rows


def _table(name: str, rows: pd.DataFrame, config: Config) -> Table:
    flat = rows.reset_index() if any(rows.index.names) else rows
    names = [_column(column) for column in flat.columns]
    plain = flat.set_axis(names, axis=1).rename(columns=_RENAMED.get(name, {}))
    return table(plain, title=_TITLES[name], note="As HTA defines it.", limit=config.max_rows)


def _column(name: Any) -> str:
    """Return HTA's name of a column, with its unit written as in our tables."""
    text = "_".join(filter(None, map(str, name))) if isinstance(name, tuple) else str(name)
    text = re.sub(r"\s*\(us\)$", "_us", text)
    return re.sub(r"(?:_pctg|percentage|pctg)$", "_percent", text).lstrip("_")


def _metrics(frames: Frames) -> dict[str, Metric]:
    """Return means over ranks."""
    values = {
        name: Metric(
            value=float(frames[source][column].mean()),
            unit="percent",
            title=title,
            better="lower" if name == "idle_percent" else "higher",
        )
        for name, (source, column, title) in _METRICS.items()
        if source in frames and len(frames[source])
    }
    return {name: metric for name, metric in values.items() if math.isfinite(metric.value)}


_CHARTS = (
    Chart(
        kind="stacked_bar",
        title="GPU time of each rank",
        table="temporal_breakdown",
        x="rank",
        y=("compute_time_us", "non_compute_time_us", "idle_time_us"),
    ),
    Chart(
        kind="bar",
        title="GPU time by type of kernel",
        table="kernel_types",
        x="kernel_type",
        y=("sum_us",),
        horizontal=True,
    ),
)
