"""The tables as a trace object of HTA, as if HTA had read the JSON, for its analyses.

HTA takes most of its time to read; its columns are made here, vectorised, except for the links
that it makes itself. Times are µs from the first event, as in HTA but not rounded.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import Columns
from profkit.analyze.shared import calltree
from profkit.analyze.shared.large_table import LargeTable, tidy

if TYPE_CHECKING:
    from hta.common.trace import Trace

WHERE = ["rank", "repeat"]
OPS = Columns("rank repeat op pid tid name kind start_ns end_ns step external")
CALLS = Columns("rank repeat op tid name start_ns end_ns correlation step")
KERNELS = Columns("rank repeat device stream name kind start_ns end_ns correlation size_bytes")
"""Columns of `cpu_ops`, `runtime_calls` and `kernels` that are read."""
NOT_COUNTED = ("bytes", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "external_id")
"""Columns of HTA that tell what operators did, or what work waited for, and no numbers."""
TABLES = ("cpu_ops", "runtime_calls", "kernels", "annotations", "synchronisations")

_CATEGORIES = {"copy": "gpu_memcpy", "set": "gpu_memset"}
_STEP = "ProfilerStep#"
"""Beginning of the ranges that are steps to HTA, which knows no others."""

_US = 1000
_DRIVER = r"^cu[A-Z]"


def trace(
    tables: dict[str, pd.DataFrame], *, include_last_step: bool = False, without: Sequence[str] = ()
) -> "Trace":
    """Return the first repeat of each rank in `tables` (those of `TABLES`) as HTA holds a trace.

    HTA leaves out the last step, and all kernels launched in it, unless it is the only one. The
    columns `without` are left out.
    """
    from hta.common import trace as reader  # noqa: PLC0415 - imports plotly
    from hta.common.trace_parser import infer_gpu_type  # noqa: PLC0415
    from hta.configs.config import logger  # noqa: PLC0415

    logger.setLevel("CRITICAL")
    made = reader.Trace(trace_files={})
    events = {rank: _events(rows, without) for rank, rows in _first_repeats(tables).items()}
    for rows, texts in events.values():
        for name in _TEXT:
            made.symbol_table.add_symbols(texts[code] for code in pd.unique(rows[name]).tolist())
    numbers = made.symbol_table.get_sym_id_map()
    is_marked = any(name.startswith(_STEP) for name in numbers)
    origin = min((int(rows["ts"].min()) for rows, _ in events.values()), default=0)
    del rows
    for rank in list(events):
        tidy(len(events[rank][0]))
        in_us = _in_us(_numbered(*events.pop(rank), numbers), origin)
        linked = reader.transform_correlation_to_index(in_us, made.symbol_table)
        iteration = _iterations(linked) if is_marked else -1
        made.traces[rank] = linked.assign(iteration=iteration).drop(columns="step")
        made.meta_data[rank] = {"device_type": infer_gpu_type(None, numbers)}
        del in_us, linked
        tidy(len(made.traces[rank]))
    made.align_and_filter_trace(include_last_step)
    for rank, rows in made.traces.items():
        made.traces[rank] = Events(rows.set_index("index", drop=False).rename_axis(None))
    made.is_parsed = True
    _without_file(made)
    return made


def of_use(
    cpu_ops: LargeTable, runtime_calls: LargeTable, *linked: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the operators and calls that HTA looks at where it lists no operators.

    It takes the steps from ranges and what is next to their beginnings: that next to a step which
    is left out is the first and the last of its trace. Of the calls it looks at those that a row of
    `linked` tables has the correlation of, and knows the names of the others.
    """
    marks = cpu_ops.where(_are_ranges)
    edges = np.unique(marks["start_ns"].to_numpy(np.int64))
    known = np.unique(np.concatenate([rows["correlation"].to_numpy(np.int64) for rows in linked]))

    def are_looked_at(calls: pd.DataFrame) -> NDArray[np.bool_]:
        correlation = calls["correlation"].to_numpy(np.int64)
        is_first = ~calls["name"].duplicated().to_numpy()
        is_linked = calltree.positions(known, correlation) >= 0
        return is_linked | is_first | _are_next_to(calls, edges)

    ops = cpu_ops.where(lambda rows: _are_ranges(rows) | _are_next_to(rows, edges))
    return ops, runtime_calls.where(are_looked_at)


def _are_ranges(ops: pd.DataFrame) -> NDArray[np.bool_]:
    return (ops["kind"] != "operator").to_numpy()


def _are_next_to(rows: pd.DataFrame, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are the first or last from one of the `edges` on, or in ns."""
    kept = np.zeros(len(rows), dtype=np.bool_)
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    if not len(rows):
        return kept
    place = [*(rows[name].to_numpy() for name in WHERE), np.searchsorted(edges, start, "right")]
    order = np.lexsort((start, *place[::-1]))
    differs = np.any([values[order[1:]] != values[order[:-1]] for values in place], axis=0)
    kept[order[np.r_[True, differs]]] = True
    kept[order[np.r_[differs, True]]] = True
    # One of each kind that tells that times are not whole µs.
    for fraction in (start % _US != start[0] % _US, (end - start) % _US > 0):
        kept[np.flatnonzero(fraction)[:1]] = True
    return kept


class Events(pd.DataFrame):
    """The events of a rank, with HTA's functions of a name called once for each name."""

    @property
    def _constructor(self) -> type["Events"]:
        return Events

    def apply(self, func: Any, axis: Any = 0, **rest: Any) -> Any:  # type: ignore[override]
        """See `pandas.DataFrame.apply`.

        HTA takes the type of a kernel from its name row by row: most of the time of its analyses.
        """
        if axis != 1 or rest or list(self) != ["name"] or self.empty:
            return super().apply(func, axis=axis, **rest)
        codes, _ = pd.factorize(self["name"])
        answers = pd.DataFrame.apply(self.drop_duplicates(), func, axis=1)
        return answers.take(codes).set_axis(self.index)


def _without_file(made: "Trace") -> None:
    """Make HTA draw its sequences of kernels into an empty trace, and not write it."""
    made.trace_files = dict.fromkeys(made.traces, "")
    nothing = {"name": "", "ph": "M", "pid": 0, "args": {}}
    made.get_raw_trace_for_one_rank = lambda **_: {"traceEvents": [nothing]}
    made.write_raw_trace = lambda *_: None


_TEXT = ("cat", "name")


def _first_repeats(tables: dict[str, pd.DataFrame]) -> dict[int, dict[str, pd.DataFrame]]:
    """Return the tables of each rank, of the first repeat with any row."""
    where = pd.concat([tables[name][WHERE].drop_duplicates() for name in TABLES])
    first = where.groupby("rank")["repeat"].min().reset_index()
    return {
        rank: {name: _of_one(tables[name], rank, repeat) for name in TABLES}
        for rank, repeat in zip(first["rank"].tolist(), first["repeat"].tolist(), strict=True)
    }


def _of_one(rows: pd.DataFrame, rank: int, repeat: int) -> pd.DataFrame:
    chosen = ((rows["rank"] == rank) & (rows["repeat"] == repeat)).to_numpy()
    return rows if chosen.all() else rows[chosen]


def _events(
    tables: dict[str, pd.DataFrame], without: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return all events of one rank in the columns that HTA makes of them, times in ns.

    Categories and names are positions in the list that comes with them.
    """
    ops, calls, kernels, notes, waits = (tables[name] for name in TABLES)
    process = np.append(ops["pid"].to_numpy(np.int64), _most_frequent(ops["pid"]))
    notes = notes[(notes["kind"] == "device").to_numpy()]
    duration = (kernels["end_ns"] - kernels["start_ns"]).clip(lower=1)
    parts = [
        _part(ops, cat=_renamed(ops["kind"], _OF_HOST.__getitem__), pid=ops["pid"], tid=ops["tid"],
              step=ops["step"], external_id=ops["external"]),
        _part(calls, cat=_renamed(calls["name"], _of_call), tid=calls["tid"],
              pid=process[calltree.rows_of(ops, calls)], correlation=calls["correlation"],
              step=calls["step"]),
        _part(waits, cat="cuda_sync", pid=waits["device"], tid=waits["stream"],
              stream=waits["stream"], correlation=waits["correlation"],
              wait_on_stream=waits["awaited_stream"],
              wait_on_cuda_event_record_corr_id=waits["awaited_correlation"]),
        _part(kernels, cat=_renamed(kernels["kind"], _of_device), pid=kernels["device"],
              tid=kernels["stream"], stream=kernels["stream"],
              correlation=kernels["correlation"], bytes=kernels["size_bytes"],
              memory_bw_gbps=(kernels["size_bytes"] / duration).clip(lower=0)),
        # Traces give their stream as thread only, so HTA does not see them as GPU events.
        _part(notes, cat="gpu_user_annotation", pid=_most_frequent(kernels["device"]),
              tid=notes["tid"], step=notes["step"]),
    ]  # fmt: skip
    texts: dict[str, int] = {}
    columns = {
        name: _small(name, np.concatenate([_numbers(part.pop(name), texts) for part in parts]))
        for name in [*parts[0]]
        if name not in without
    }
    # HTA takes 0 for none.
    columns["index"] = _small("index", np.arange(1, len(columns["ts"]) + 1))
    return pd.DataFrame(columns, copy=False), [*texts]


def _small(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the smallest type, as HTA has them, which copies them again and again."""
    whole = values.dtype.kind == "i" and name not in {"ts", "dur"}
    return np.asarray(pd.to_numeric(values, downcast="integer")) if whole else values


_OF_HOST = {"operator": "cpu_op", "annotation": "user_annotation"}
_UNKNOWN = {
    "stream": -1,
    "correlation": -1,
    "bytes": -1,
    "memory_bw_gbps": 0.0,
    "wait_on_stream": -1,
    "wait_on_cuda_event_record_corr_id": -1,
    "external_id": -1,
    "step": -1,
}


def _of_call(name: str) -> str:
    return "cuda_driver" if re.match(_DRIVER, name) else "cuda_runtime"


def _of_device(kind: str) -> str:
    return _CATEGORIES.get(kind, "kernel")


def _renamed(values: pd.Series, rename: Callable[[str], str]) -> Any:
    """Return a Categorical of the new names of `values`, renaming each distinct one once."""
    old = pd.Categorical(values)
    names = {text: rename(text) for text in old.categories[np.unique(old.codes)]}
    new = list(dict.fromkeys(names.values()))
    positions = np.array(
        [new.index(names[text]) if text in names else -1 for text in old.categories], dtype=np.int64
    )
    return pd.Categorical.from_codes(positions[old.codes], pd.Index(new))


def _part(rows: pd.DataFrame, **columns: Any) -> dict[str, Any]:
    """Return HTA's columns of `rows`: arrays of numbers, or Categoricals, of their length."""
    start = rows["start_ns"].to_numpy(np.int64)
    end = rows["end_ns"].to_numpy(np.int64)
    given = _UNKNOWN | {"name": rows["name"], "ts": start, "dur": end - start} | columns
    return {name: _filled(given[name], len(rows)) for name in ("cat", "pid", "tid", "name", "ts",
                                                               "dur", *_UNKNOWN)}  # fmt: skip


def _most_frequent(values: "pd.Series[int]") -> int:
    """Return the most frequent value, 0 if there is none."""
    counted = values.value_counts()
    return int(counted.index[0]) if len(counted) else 0


def _filled(values: Any, count: int) -> Any:
    """Return `values`, or one of them `count` times."""
    if isinstance(values, str):
        return pd.Categorical.from_codes(np.zeros(count, dtype=np.int8), pd.Index([values]))
    if isinstance(values, pd.Categorical) or getattr(values, "dtype", None) == "category":
        return pd.Categorical(values)
    return np.broadcast_to(values, count) if np.isscalar(values) else np.asarray(values)


def _numbers(values: Any, texts: dict[str, int]) -> NDArray[Any]:
    """Return numbers as they are, and texts as positions in `texts`, which is extended."""
    if not isinstance(values, pd.Categorical):
        return np.asarray(values)
    used = np.unique(values.codes)
    positions = np.full(len(values.categories), -1, dtype=np.int32)
    positions[used] = [texts.setdefault(text, len(texts)) for text in values.categories[used]]
    return np.asarray(positions[values.codes])


def _numbered(rows: pd.DataFrame, texts: list[str], numbers: dict[str, int]) -> pd.DataFrame:
    symbols = _small("symbols", np.array([numbers[text] for text in texts], dtype=np.int32))
    codes = {name: symbols[rows[name].to_numpy()] for name in _TEXT}
    return rows.assign(**codes).set_index("index", drop=False).rename_axis(None)


def _in_us(rows: pd.DataFrame, origin: int) -> pd.DataFrame:
    """Return times in µs: integers, as in older traces, or floats that are exact to the ns."""
    start = rows["ts"].to_numpy(np.int64) - origin
    length = rows["dur"].to_numpy(np.int64)
    whole = not (start % _US).any() and not (length % _US).any()
    start, length = (time // _US if whole else time / _US for time in (start, length))
    return rows.assign(ts=start, dur=length, end=start + length)


def _iterations(rows: pd.DataFrame) -> NDArray[np.integer[Any]]:
    """Return the step of each event; that of a kernel is that of its launch."""
    step = rows["step"].to_numpy()
    link = rows["index_correlation"].to_numpy(np.int64)
    # Numbers of events begin at 1, their positions at 0.
    launched = np.where(link > 0, step[np.maximum(link, 1) - 1], -1)
    return np.where(rows["stream"].to_numpy() > 0, launched, step)
