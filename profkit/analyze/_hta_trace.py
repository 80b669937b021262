"""Our tables as the trace object of HTA, as if it had read the JSON: what its analyses work on.

HTA takes most of its time to read; what it makes of the events is vectorised here, except for the
links that it makes itself. Times are µs from the first event, as HTA has them but not rounded.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit import calltree

if TYPE_CHECKING:
    from hta.common.trace import Trace

WHERE = ["rank", "repeat"]
TABLES = ("cpu_ops", "runtime_calls", "kernels", "annotations", "synchronisations")

_CATEGORIES = {"copy": "gpu_memcpy", "set": "gpu_memset"}
_US = 1000
_DRIVER = r"^cu[A-Z]"


def trace(tables: dict[str, pd.DataFrame], *, include_last_step: bool = False) -> "Trace":
    """Return the first repeat of each rank in `tables` (those of `TABLES`) as HTA holds a trace.

    HTA leaves out the last step, and all that is launched in it, unless it is the only one.
    """
    from hta.common import trace as reader  # noqa: PLC0415 - imports plotly
    from hta.common.trace_parser import infer_gpu_type  # noqa: PLC0415
    from hta.configs.config import logger  # noqa: PLC0415

    logger.setLevel("CRITICAL")
    made = reader.Trace(trace_files={})
    events = {rank: _events(rows) for rank, rows in _first_repeats(tables).items()}
    # HTA reads both as strings and keeps numbers.
    symbols = pd.unique(pd.concat([each[name] for each in events.values() for name in _TEXT]))
    made.symbol_table.add_symbols(symbols.tolist())
    origin = min((int(each["ts"].min()) for each in events.values()), default=0)
    for rank, each in events.items():
        numbered = _numbered(each, made.symbol_table.get_sym_id_map())
        in_us = _in_us(numbered, origin)
        linked = reader.transform_correlation_to_index(in_us, made.symbol_table)
        made.traces[rank] = linked.assign(iteration=_iterations(linked))
        kind = infer_gpu_type(None, made.symbol_table.get_sym_id_map())
        made.meta_data[rank] = {"device_type": kind}
    made.align_and_filter_trace(include_last_step)
    for rank, each in made.traces.items():
        made.traces[rank] = each.set_index("index", drop=False).rename_axis(None)
    made.is_parsed = True
    _without_file(made)
    return made


def _without_file(made: "Trace") -> None:
    """Have HTA draw its sequences of kernels into an empty trace, and not write that."""
    made.trace_files = dict.fromkeys(made.traces, "")
    nothing = {"name": "", "ph": "M", "pid": 0, "args": {}}
    made.get_raw_trace_for_one_rank = lambda **_: {"traceEvents": [nothing]}
    made.write_raw_trace = lambda *_: None


_TEXT = ("cat", "name")


def _first_repeats(tables: dict[str, pd.DataFrame]) -> dict[int, dict[str, pd.DataFrame]]:
    """Return the tables of each rank, of the first repeat that it has anything of."""
    where = pd.concat([tables[name][WHERE] for name in TABLES]).drop_duplicates()
    first = where.groupby("rank")["repeat"].min().reset_index()
    return {
        rank: {
            name: rows[((rows["rank"] == rank) & (rows["repeat"] == repeat)).to_numpy()]
            for name, rows in tables.items()
        }
        for rank, repeat in zip(first["rank"].tolist(), first["repeat"].tolist(), strict=True)
    }


def _events(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return all events of one rank in the columns that HTA makes of them, times in ns."""
    ops, calls, kernels, notes, waits = (tables[name].reset_index(drop=True) for name in TABLES)
    process = np.append(ops["pid"].to_numpy(np.int64), _only(ops["pid"]))
    notes = notes[(notes["kind"] == "device").to_numpy()]
    kind = kernels["kind"].astype(object).map(_CATEGORIES).fillna("kernel")
    driver = calls["name"].astype(str).str.match(_DRIVER)
    duration = (kernels["end_ns"] - kernels["start_ns"]).clip(lower=1)
    parts = [
        _part(ops, cat=ops["kind"].astype(object).map(_OF_HOST), pid=ops["pid"], tid=ops["tid"],
              step=ops["step"], external_id=ops["external"]),
        _part(calls, cat=np.where(driver, "cuda_driver", "cuda_runtime"), tid=calls["tid"],
              pid=process[calltree.rows_of(ops, calls)], correlation=calls["correlation"],
              step=calls["step"]),
        _part(waits, cat="cuda_sync", pid=waits["device"], tid=waits["stream"],
              stream=waits["stream"], correlation=waits["correlation"],
              wait_on_stream=waits["awaited_stream"],
              wait_on_cuda_event_record_corr_id=waits["awaited_correlation"]),
        _part(kernels, cat=kind, pid=kernels["device"], tid=kernels["stream"],
              stream=kernels["stream"], correlation=kernels["correlation"],
              bytes=kernels["size_bytes"],
              memory_bw_gbps=(kernels["size_bytes"] / duration).clip(lower=0)),
        # Traces give their stream as thread only, so to HTA they are not work of a device.
        _part(notes, cat="gpu_user_annotation", pid=_only(kernels["device"]), tid=notes["tid"],
              step=notes["step"]),
    ]  # fmt: skip
    rows = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    # HTA takes 0 for none.
    return rows.assign(index=np.arange(1, len(rows) + 1))


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


def _part(rows: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    start = rows["start_ns"].to_numpy(np.int64)
    end = rows["end_ns"].to_numpy(np.int64)
    given = {name: _plain(values) for name, values in columns.items()}
    return pd.DataFrame(
        _UNKNOWN | {"name": _plain(rows["name"]), "ts": start, "dur": end - start} | given,
        index=range(len(rows)),
    )


def _plain(values: Any) -> Any:
    if not isinstance(values, pd.Series):
        return values
    return values.astype(object).to_numpy() if values.dtype == "category" else values.to_numpy()


def _only(values: "pd.Series[int]") -> int:
    """Return the value that most have, 0 if there is none."""
    counted = values.value_counts()
    return int(counted.index[0]) if len(counted) else 0


def _numbered(rows: pd.DataFrame, numbers: dict[str, int]) -> pd.DataFrame:
    codes = {name: rows[name].map(numbers).astype(np.int64) for name in _TEXT}
    return rows.assign(**codes).set_index("index", drop=False).rename_axis(None)


def _in_us(rows: pd.DataFrame, origin: int) -> pd.DataFrame:
    """Return times in µs: integers, as in older traces, or floats that are exact to the ns."""
    start = rows["ts"].to_numpy(np.int64) - origin
    length = rows["dur"].to_numpy(np.int64)
    whole = not (start % _US).any() and not (length % _US).any()
    start, length = (each // _US if whole else each / _US for each in (start, length))
    return rows.assign(ts=start, dur=length, end=start + length)


def _iterations(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return the step of each event; of device work, that of the call which launched it."""
    step = rows["step"].to_numpy(np.int64)
    link = rows["index_correlation"].to_numpy(np.int64)
    # Numbers of events begin at 1, as their places at 0.
    launched = np.where(link > 0, step[np.maximum(link, 1) - 1], -1)
    return np.where(rows["stream"].to_numpy() > 0, launched, step)
