"""Critical path: the chain of operators, launches and kernels that nothing could run beside."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
import pandas as pd

from profkit.analyze._path_on_gpu import BLOCKED, Part, through_gpu
from profkit.analyze.base import NO_GPU_WORK, analysis
from profkit.analyze.shared.hta_trace import OPS, TABLES, trace
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.representative_ranks import by_gpu_time, left_out
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, step_windows, with_clock
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.process.malloc import uncollected

_KINDS = {
    "cpu_bound": "host",
    "data_loading": "host",
    "gpu_compute_bound": "kernels",
    "gpu_communication_bound": "communication",
    "gpu_kernel_launch_overhead": "launch delay",
    "gpu_kernel_kernel_overhead": "gaps between kernels",
}
"""HTA's names of the parts of a path, and ours."""
_PATH = ["rank", "step"]
_NAME_OF = "_get_node_name"
"""Method of HTA's graph that returns the name of an event."""
_CACHED = "_add_zero_weight_launch_edges"
"""Method whose cache would keep every graph: 100 MB for a rank of 40 thousand events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/critical_path.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_events: int = 60_000
    """Events of one step above which its path is not computed: that many take five seconds."""

    most_ranks: int = 16
    """Ranks whose path is computed. Of more: the farthest from the median rank, and some others."""

    max_rows: int = 200
    """Rows kept of the table of operators and kernels."""


@analysis(title="Critical path")
def analyze(  # noqa: PLR0913, PLR0917 - the signature says what is read
    cpu_ops: Annotated[LargeTable, OPS],
    runtime_calls: LargeTable,
    kernels: LargeTable,
    annotations: pd.DataFrame,
    synchronisations: pd.DataFrame,
    steps: pd.DataFrame,
    config: Config,
) -> Result:
    """Which chain of dependent work makes the step of median time of each rank so long? By HTA.

    Its parts are work of the CPU (operators and calls without what they enclose), kernels,
    communication, delays from a launch to its kernel, and gaps from one kernel of a stream to the
    next. Where the path lies in a call that holds the CPU (a synchronisation, an allocation, a copy
    from pageable memory) it passes through what the GPU does meanwhile; the rest is blocked. Shares
    are of the length of the path. What the CPU does between operators, in Python, is on no path.
    Waiting for another rank is inside of communication.
    """
    on_gpu = step_spans(kernels)
    if on_gpu.empty:
        return Result.abstain("the critical path", NO_GPU_WORK)
    if not any(cpu_ops.groups()):
        return Result.abstain("the critical path", "no operator was recorded, only GPU work")
    small = map(LargeTable.of, (annotations, synchronisations))
    given = (cpu_ops, runtime_calls, kernels, *small)
    tables = dict(zip(TABLES, given, strict=True))
    windows, missing = step_windows(steps, on_gpu, config.skip_first)
    ranks, count = by_gpu_time(on_gpu, config.most_ranks)
    missing += left_out("the critical path", ranks, count)
    typical = _typical(with_clock(windows))
    parts, lost = _paths(typical[typical["rank"].isin(ranks)], tables, config)
    if parts.empty:
        return Result(abstentions=(*missing, *lost))
    by_kind = _summed(parts, [*_PATH, "step_time_ns", "kind"])
    by_name = _summed(parts, ["name", "kind"])
    return Result(
        metrics=_metrics(by_kind),
        tables=_tables(by_kind, by_name, config),
        charts=_CHARTS,
        abstentions=(*missing, *lost, *_uncertain(synchronisations)),
    )


def _typical(windows: pd.DataFrame) -> pd.DataFrame:
    """Return for each rank the step of median time (the earlier of two) of its first repeat."""
    first = windows["repeat"] == windows.groupby("rank")["repeat"].transform("min")
    own = windows.assign(own_ns=windows["end_ns"] - windows["start_ns"])[first]
    ordered = own.sort_values(["rank", "own_ns", "step"])
    position = ordered.groupby("rank").cumcount()
    middle = (ordered.groupby("rank")["own_ns"].transform("size") - 1) // 2
    return ordered[position == middle].reset_index(drop=True)


def _paths(
    chosen: pd.DataFrame, tables: dict[str, LargeTable], config: Config
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return the parts of the path of each of the `chosen` steps, and why one has none."""
    found: list[pd.DataFrame] = []
    lost: list[Abstention] = []
    for window in chosen.to_dict("records"):
        rows = {name: _of_step(table_of_all, window) for name, table_of_all in tables.items()}
        where = f"the critical path of rank {window['rank']}"
        where += f", step {window['step']}" if window["step"] >= 0 else ""
        count = sum(map(len, rows.values()))
        if count > config.max_events:
            lost.append(Abstention(what=where, reason=f"{count} events: set max_events to have it"))
            continue
        if found:
            gc.collect()  # the graph of the step before; the last one goes with the process
        try:
            path = parts_of_path(rows)
        except Exception as error:
            logging.getLogger(__name__).debug("HTA's critical path", exc_info=True)
            reason = f"HTA failed: {str(error) or type(error).__name__}"[:300]
            lost.append(Abstention(what=where, reason=reason))
            continue
        if path.empty:
            reason = "HTA found no order of the events that holds: start or end times contradict"
            lost.append(Abstention(what=where, reason=reason))
        found.append(path.assign(**{name: window[name] for name in (*_PATH, "step_time_ns")}))
    columns = [*_PATH, "step_time_ns", "kind", "name", "time_ns"]
    return pd.concat([pd.DataFrame(columns=columns), *found])[columns], tuple(lost)


def _of_step(work: LargeTable, window: dict[Any, Any]) -> pd.DataFrame:
    """Return the rows of the rank and repeat, and of the step if steps are known."""
    rows = work.of_ranks({int(window["rank"])})
    same = np.ones(len(rows), dtype=np.bool_)
    for name in (*WHERE, "step"):
        if name != "step" or window["step"] != -1:
            same &= (rows[name] == window[name]).to_numpy()
    return rows[same]


def parts_of_path(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return name, kind and time_ns of each part of HTA's critical path through one rank's events.

    Empty if HTA finds that the order of events contradicts itself. Raises `LookupError` if no call
    that HTA knows launches work, and passes on what HTA raises. Edges that take no time (mere
    dependencies) are left out.
    """
    from hta.analyzers.critical_path_analysis import (  # noqa: PLC0415 - imports networkx
        CPGraph,
        CriticalPathAnalysis,
    )

    made = trace(tables, include_last_step=True)
    (rank,) = made.get_ranks()
    if not made.symbol_table.get_runtime_launch_events_mask(made.get_trace(rank)).any():
        raise LookupError("no call that it follows launches work; it follows no CUDA graphs")
    with warnings.catch_warnings(action="ignore"), _lean(CPGraph):
        # The empty annotation is part of every name: the path of all events.
        parts = _through_gpu(*CriticalPathAnalysis.critical_path_analysis(made, rank, "", None))
    columns = ["name", "kind", "time_ns", "event"]
    return pd.DataFrame(parts, columns=columns).drop(columns="event")


def _through_gpu(graph: Any, succeeded: bool) -> list[Part]:
    """Return the parts of HTA's path, calls that hold the CPU divided by what the GPU does."""
    from hta.utils.utils import shorten_name  # noqa: PLC0415 - HTA is loaded where it is needed

    symbols = graph.symbol_table.get_sym_table() if succeeded else []
    parts = _parts(graph, succeeded)

    @cache
    def described(kernel: str) -> tuple[str, str]:
        return shorten_name(kernel), _kind(graph, "", kernel)

    return list(through_gpu(parts, graph.trace_df, symbols, described)) if parts else []


def _kind(graph: Any, edge_type: str, name: str | None, stream: int = 0) -> str:
    bound = graph.bound_by({"type": edge_type, "s_name": name, "stream": stream})
    return _KINDS[bound] if bound else ""


def _parts(graph: Any, succeeded: bool) -> list[Part]:
    """Return name, kind, time_ns and event of each edge of the path that takes time.

    The same as from HTA's `get_critical_path_breakdown`, which looks every edge up in pandas and so
    takes half as long as finding the path.
    """
    from hta.utils.utils import shorten_name  # noqa: PLC0415 - HTA is loaded where it is needed

    if not succeeded:
        return []
    events = graph.trace_df
    columns = zip(events["index"], events["name"], events["stream"], strict=True)
    event_of = {index: (int(name), int(stream)) for index, name, stream in columns}
    symbols = graph.symbol_table.get_sym_table()

    @cache
    def described(edge_type: str, event: tuple[int, int] | None) -> tuple[str, str]:
        number, stream = event or (-1, -1)
        name = shorten_name(symbols[number]) if event else None
        return name or "", _kind(graph, edge_type, name, stream)

    parts = []
    for edge in graph.critical_path_edges_set:
        event = graph.get_event_attribution_for_edge(edge)
        name, kind = described(edge.type.value, event_of.get(event))
        if kind and edge.weight > 0:
            parts.append((name, kind, round(edge.weight * 1000), -1 if event is None else event))
    return parts


@contextmanager
def _lean(graphs: type[Any]) -> Iterator[None]:
    """Make HTA's `graphs` look names up in a dictionary, and keep none of them afterwards.

    Looking names up in pandas takes most of the time: four times for each event, 0.1 ms each.
    No garbage is collected while a graph grows, which takes a quarter of the time.
    """

    def name_of(graph: Any, event: int) -> str:
        if "names" not in graph.__dict__:
            names = graph.symbol_table.get_sym_table()
            graph.names = {row: names[number] for row, number in graph.trace_df["name"].items()}
        return "ROOT" if event < 0 else str(graph.names[event])

    original = getattr(graphs, _NAME_OF)
    setattr(graphs, _NAME_OF, name_of)
    try:
        with uncollected():
            yield
    finally:
        setattr(graphs, _NAME_OF, original)
        getattr(graphs, _CACHED).cache_clear()


def _summed(parts: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return time, share of the path and number of parts by `keys`, those with most time first."""
    groups = parts.groupby(keys, sort=False)["time_ns"]
    rows = pd.DataFrame({"time_ns": groups.sum(), "parts": groups.size()}).reset_index()
    whole = [name for name in _PATH if name in keys]
    total = rows.groupby(whole)["time_ns"].transform("sum") if whole else rows["time_ns"].sum()
    rows["path_share"] = rows["time_ns"] / total
    # HTA gives edges in the order of a set, which differs between processes.
    order = rows.sort_values(["time_ns", *keys], ascending=[False] + [True] * len(keys))
    return (order.sort_values(whole, kind="stable") if whole else order).reset_index(drop=True)


def _metrics(by_kind: pd.DataFrame) -> dict[str, Metric]:
    total = by_kind["time_ns"].sum()
    clock = by_kind.drop_duplicates(_PATH)["step_time_ns"].sum()
    shares = by_kind.groupby("kind")["time_ns"].sum() / total
    metrics = {
        f"{kind.replace(' ', '_')}_share": Metric(
            value=float(shares.get(kind, 0.0)),
            unit="share",
            title=f"Critical path: {kind}, of its length",
        )
        for kind in dict.fromkeys((*_KINDS.values(), BLOCKED))
    }
    metrics["path_share"] = Metric(
        value=float(total / clock),
        unit="share",
        title="Length of the critical path, of the step time, mean over ranks",
    )
    return metrics


def _tables(by_kind: pd.DataFrame, by_name: pd.DataFrame, config: Config) -> dict[str, Table]:
    note = "Of the step of median time of each rank; shares are of the length of the paths."
    return {
        "by_kind": table(by_kind, title="Parts of the critical path", note=note),
        "by_name": table(
            by_name,
            title="Operators and kernels on the critical path",
            note=note,
            limit=config.max_rows,
        ),
    }


def _uncertain(synchronisations: pd.DataFrame) -> tuple[Abstention, ...]:
    if len(synchronisations):
        return ()
    reason = (
        "the trace has no synchronisation events, so that a path does not go from a kernel to the "
        "host that waits for it: set enable_cuda_sync_events"
    )
    return (Abstention(what="waiting for the GPU on the critical path", reason=reason),)


_CHARTS = (
    Chart(
        kind="stacked_bar",
        title="Parts of the critical path of each rank",
        table="by_kind",
        x="rank",
        y=("time_ns",),
        color="kind",
    ),
    Chart(
        kind="bar",
        title="Operators and kernels on the critical path",
        table="by_name",
        x="name",
        y=("time_ns",),
        color="kind",
        horizontal=True,
    ),
)
